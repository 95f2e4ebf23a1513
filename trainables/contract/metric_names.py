"""Names of the metrics of a trial."""

from dataclasses import dataclass, replace
from typing import Final, Literal, Self

SplitName = Literal["", "val", "test"]
Statistic = Literal["", "low", "high", "calibrated", "calibrated_high"]


FEWEST_CLUSTERS: Final = 10
"""With fewer groups, or images with many pixels, there are no intervals and no verdicts."""


RARE_CLASS: Final = "rare_class"
"""The name in a trial's outcome of whether a class is rare: 1.0, or it is not there."""


def groups_name(split: str) -> str:
    """The name of the number of groups of a split in a trial's outcome, such as ``test_groups``."""
    return "val_groups" if split == "validation" else f"{split}_groups"


@dataclass(frozen=True)
class MetricName:
    """A name such as ``val_ece``, ``test_nll_scaled`` or ``val_ece_calibrated_high``.

    ``metric`` may be the name of a custom function. ``split`` is empty if the context determines
    it. ``scaled`` is after temperature scaling. ``statistic`` is empty for the value itself,
    ``low`` and ``high`` for its 95% interval, ``calibrated`` and ``calibrated_high`` for the mean
    and the 97.5 % bound of a calibrated model.
    """

    metric: str
    split: SplitName = ""
    scaled: bool = False
    statistic: Statistic = ""

    def __str__(self) -> str:
        parts = (self.split, self.metric, "scaled" if self.scaled else "", self.statistic)
        return "_".join(part for part in parts if part)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parses the name of a value, such as an objective; it never has a statistic."""
        splits: tuple[SplitName, ...] = ("val", "test")
        split: SplitName = next((each for each in splits if text.startswith(f"{each}_")), "")
        metric = text.removeprefix(f"{split}_") if split else text
        return cls(metric.removesuffix("_scaled"), split, metric.endswith("_scaled"))

    def with_statistic(self, statistic: Statistic) -> str:
        """The name of a statistic of this value."""
        return str(replace(self, statistic=statistic))
