"""In which direction confidence is wrong: over- and underconfidence."""

from dataclasses import dataclass

import numpy as np
from torch import Tensor

from trainables.metrics._inputs import check_level, check_probs
from trainables.metrics._predictions import NUM_BINS
from trainables.metrics._ranked import equal_width_boundaries, rank_top_label, top_label
from trainables.metrics.inference.clustered_errors import ends_of_error
from trainables.metrics.inference.clusters import Clusters, clusters_of
from trainables.metrics.inference.influence import Ends, mean_interval
from trainables.metrics.inference.inversion import ErrorOfGaps
from trainables.metrics.inference.top_label_gaps import cells_of_bins

Measured = tuple[float, float, float]


@dataclass(frozen=True)
class Direction:
    """Confidence less accuracy, and the two parts of the ECE; each a value, a lower and upper end.

    Attributes:
        gap: Mean confidence less accuracy: above 0 is overconfident.
        over: Part of the ECE from bins whose confidence is above their accuracy.
        under: Part of the ECE from the other bins; both values sum to the ECE.
    """

    gap: Measured
    over: Measured
    under: Measured

    @property
    def word(self) -> str:
        """``overconfident``, ``underconfident``, or ``neither`` where the gap's interval has 0."""
        _, low, high = self.gap
        return "overconfident" if low > 0 else "underconfident" if high < 0 else "neither"


def direction(
    probs: Tensor, labels: Tensor, confidence: float = 0.95, clusters: Tensor | None = None
) -> Direction:
    """Over- and underconfidence of the top label, in 15 bins of equal width.

    The two parts of the ECE are biased upwards, like the ECE, so a value may lie above its own
    interval. The lower end is 0 if a calibrated model could have this value. `confidence` is the
    level of each interval by itself; arguments and errors are those of `interval`.
    """
    check_level(confidence)
    grouped = clusters_of(clusters, len(labels))
    return direction_of_top_label(*top_label(*check_probs(probs, labels)), confidence, grouped)


def direction_of_top_label(
    top: Tensor, correct: Tensor, confidence: float, clusters: Clusters | None = None
) -> Direction:
    """`direction` from the confidence of each prediction (N,) and whether it is correct (N,)."""

    def part(sign: int) -> Measured:
        error = ErrorOfGaps.of_sum(
            lambda gaps: np.maximum(sign * gaps, 0), farthest_accuracy=0 if sign > 0 else 1
        )
        ends = ends_of_error((cells, error), top, correct, confidence, clusters)
        return error.population(cells.gaps), *ends

    gaps = top.double() - correct.double()
    ranked = rank_top_label(top, correct)
    cells = cells_of_bins(ranked, equal_width_boundaries(ranked, NUM_BINS))
    gap = float(gaps.mean()), *gap_interval(top, correct, confidence, clusters)
    return Direction(gap, part(1), part(-1))


def gap_interval(
    top: Tensor, correct: Tensor, level: float, clusters: Clusters | None = None
) -> Ends:
    """Interval of mean confidence less accuracy.

    From the confidence of each prediction (N,) and whether it is correct (N,). It also holds if
    none, or all, of a few predictions are correct.
    """
    mean = float(top.double().mean())
    return mean_interval(top.double() - correct.double(), level, clusters, (mean - 1, mean))
