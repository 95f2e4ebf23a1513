"""The driver's clock, which a step of the system's clock does not affect."""

from __future__ import annotations

import time as system
from typing import Final

_BEGAN: Final = system.time() - system.monotonic()


def time() -> float:
    """Seconds since the epoch: the system's time at the start of this process, and what passed."""
    return _BEGAN + system.monotonic()
