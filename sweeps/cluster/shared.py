"""Objects that Ray Tune must not copy."""

from __future__ import annotations

from typing import Any, Self


class SharedWithTune:
    """A part of the driver that stays one object when Ray Tune copies or pickles it.

    Tune deep-copies its searcher, scheduler and callbacks. It also pickles them, for a way to
    restore experiments that calsweep does not use.
    """

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def __getstate__(self) -> dict[str, Any]:
        return {}
