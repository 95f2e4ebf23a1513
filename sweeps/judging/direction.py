"""Over- and underconfidence."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from trainables import metrics as M
from trainables.metrics._influence import mean_interval


@dataclass(frozen=True)
class Direction:
    """The difference between confidence and accuracy.

    Attributes:
        gap: Mean confidence minus accuracy; overconfident above 0.
        low: Lower end of the gap's interval over samples.
        high: Its upper end.
        over: Part of the ECE from overconfident bins.
        under: Part of the ECE from underconfident bins; both sum to the ECE.
    """

    gap: float
    low: float
    high: float
    over: float
    under: float

    @property
    def word(self) -> str:
        """``overconfident``, ``underconfident``, or ``neither`` if the interval contains 0."""
        return "overconfident" if self.low > 0 else "underconfident" if self.high < 0 else "neither"


def direction(probs: Tensor, labels: Tensor, level: float = 0.95) -> Direction:
    """Over- and underconfidence of predictions (N, K) on labels (N,), in 15 equal-width bins.

    Args:
        probs: Probabilities, each row sums to one.
        labels: True classes, integers.
        level: Level of the interval of the gap, in (0, 1).
    """
    confidence, predicted = probs.max(dim=1)
    gaps = confidence.double() - (predicted == labels).double()
    low, high = mean_interval(gaps, level)
    bins = M.reliability_bins(probs, labels)
    weighted = ((bins.confidence - bins.accuracy) * bins.count / len(labels)).nan_to_num()
    over, under = (float((sign * weighted).clamp(min=0).sum()) for sign in (1, -1))
    return Direction(float(gaps.mean()), low, high, over, under)
