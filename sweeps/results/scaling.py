"""What scaling the judged networks have, and what a temperature alone would give."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sweeps.messages.formatting import scaling_words


@dataclass(frozen=True)
class ScalingRow:
    """The scaling of a setting's networks on the test split, means over its judged seeds.

    Attributes:
        trials: Numbers of the trials.
        names: The map of each, see :data:`~trainables.posthoc.scaling.ScalingName`.
        inverse: Whether an inverse map of the loss precedes that of the first.
        temperature: That of the first.
        nll: After the scaling; ``nll_temperature`` after a temperature alone.
        ece: Likewise.
    """

    label: str
    trials: tuple[int, ...]
    names: tuple[str, ...]
    inverse: bool
    temperature: float
    nll: float
    nll_temperature: float
    ece: float
    ece_temperature: float

    @property
    def is_temperature(self) -> bool:
        """Whether the first network has a temperature alone."""
        return self.names[0] == "temperature" and not self.inverse

    @property
    def words(self) -> str:
        """``structured matrix scaling after the inverse map of its loss``."""
        return scaling_words({**vars(self), "name": self.names[0]})

    @property
    def gain(self) -> str:
        """What it gains over a temperature alone, a sentence."""
        return (
            f"On the test split its NLL is {self.nll:.4f}, with a temperature alone "
            f"{self.nll_temperature:.4f}."
        )


def scaling_of(rows: Sequence[ScalingRow], trial: int) -> ScalingRow | None:
    """The row of the setting that a trial represents."""
    return next((row for row in rows if row.trials[0] == trial), None)
