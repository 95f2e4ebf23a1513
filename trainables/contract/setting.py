"""A setting, which is what a sweep searches for: a loss with its hyperparameters."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

BASELINE_LOSS = "cross_entropy"


@dataclass(frozen=True, eq=False)
class Setting:
    """A loss with its hyperparameters; equal for trials that differ only in their seed.

    Attributes:
        loss: Name of the loss.
        hyperparameters: Its values by name, numbers, text or truth values; not to be changed.
    """

    loss: str
    hyperparameters: dict[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> tuple[object, ...]:
        """Equal for settings that train the same: 1 and 1.0 do, 1 and true do not."""
        values = sorted(self.hyperparameters.items())
        return self.loss, *((name, type(value) is bool, value) for name, value in values)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Setting) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


BASELINE = Setting(BASELINE_LOSS)
