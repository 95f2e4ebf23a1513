"""Objects that Ray Tune must not copy."""

from __future__ import annotations

from typing import Any, Self


class SharedWithTune:
    """An object of the driver of which Tune's deep copies and pickles are the same object."""

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def __getstate__(self) -> dict[str, Any]:
        return {}
