"""A setting, the object of the search: a loss with its hyperparameters."""

from dataclasses import dataclass, field
from typing import Any, Final

BASELINE_LOSS = "cross_entropy"
_IN_PAPERS: Final = {
    "ce": BASELINE_LOSS,
    "ls": "label_smoothing",
    "fl": "focal",
    "dfl": "dual_focal",
    "fcl": "focal_calibration",
    "ifl": "inverse_focal",
    "flsd": "focal_sample_dependent",
    "flsd_53": "focal_sample_dependent",
}


def loss_name(text: str) -> str:
    """The name of a loss from its abbreviation in papers, such as ``FLSD-53``; others unchanged."""
    return _IN_PAPERS.get(text.lower().replace("-", "_"), text)


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
