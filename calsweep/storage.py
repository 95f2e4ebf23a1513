"""The default sweep store."""

from __future__ import annotations

import os


def default_storage(storage: str | os.PathLike[str] | None) -> str:
    """``storage``, or ``CALSWEEP_STORAGE`` if None, or the default of the command."""
    from sweeps.formatting import DEFAULT_STORAGE

    return os.fspath(storage or os.environ.get("CALSWEEP_STORAGE") or DEFAULT_STORAGE)
