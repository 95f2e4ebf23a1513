"""A setting, the object of the search: a loss with its hyperparameters."""

from dataclasses import dataclass, field
from typing import Any

BASELINE_LOSS = "cross_entropy"


@dataclass(frozen=True, eq=False)
class Setting:
    """A loss with its hyperparameters; equal for trials that differ only in their seed.

    ``hyperparameters`` are numbers, strings or booleans by name. Do not modify them.
    """

    loss: str
    hyperparameters: dict[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> tuple[object, ...]:
        """A key, equal for equivalent settings: 1 equals 1.0, but not true."""
        values = sorted(self.hyperparameters.items())
        return self.loss, *((name, type(value) is bool, value) for name, value in values)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Setting) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


BASELINE = Setting(BASELINE_LOSS)
