"""Objects that Ray Tune must not copy."""

from __future__ import annotations

from typing import Any, Self


class SharedWithTune:
    """An object of the driver that Ray Tune must not duplicate when it copies or pickles it.

    Tune deep-copies its searcher, scheduler and callbacks. It also pickles them to restore
    experiments, which calsweep does not use.
    """

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def __getstate__(self) -> dict[str, Any]:
        return {}
