"""In which direction confidence is wrong: over- and underconfidence."""

from dataclasses import dataclass

import numpy as np
from torch import Tensor

from trainables.metrics._influence import mean_interval
from trainables.metrics._inputs import check_level, check_probs
from trainables.metrics._inversion import Array, Cells, ErrorOfGaps
from trainables.metrics._predictions import NUM_BINS
from trainables.metrics._ranked import equal_width_boundaries, rank_top_label
from trainables.metrics._sampled_errors import invert_cells
from trainables.metrics._top_label import top_label
from trainables.metrics._top_label_gaps import cells_of_bins

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


def direction(probs: Tensor, labels: Tensor, confidence: float = 0.95) -> Direction:
    """Over- and underconfidence of the top label, in 15 bins of equal width.

    The two parts of the ECE are biased upwards, like the ECE, so a value may lie above its own
    interval. The lower end is 0 if a calibrated model could have this value.

    Args:
        probs: Probabilities, shape (N, K), rows sum to one.
        labels: True classes, shape (N,), integers.
        confidence: Level of each interval by itself, in (0, 1).

    Raises:
        TypeError: If the arguments are not tensors of floats and of integers.
        ValueError: If shapes or values are not as above.
    """
    check_level(confidence)
    return direction_of_top_label(*top_label(*check_probs(probs, labels)), confidence)


def direction_of_top_label(top: Tensor, correct: Tensor, confidence: float) -> Direction:
    """`direction` from the confidence of each prediction (N,) and whether it is correct (N,)."""
    gaps = top.double() - correct.double()
    ranked = rank_top_label(top, correct)
    cells = cells_of_bins(ranked, equal_width_boundaries(ranked, NUM_BINS))
    return Direction(
        (float(gaps.mean()), *mean_interval(gaps, confidence)),
        _part(cells, 1, confidence),
        _part(cells, -1, confidence),
    )


def _part(cells: Cells, sign: int, level: float) -> Measured:
    """The part of the ECE from gaps of one sign, see :mod:`~trainables.metrics._inversion`."""

    def part(gaps: Array) -> Array:
        return np.maximum(sign * gaps, 0)

    def total(gaps: Array) -> float:
        return float(part(gaps).sum())

    error = ErrorOfGaps(
        statistic=lambda gaps: np.asarray(part(gaps).sum(axis=1)),
        population=total,
        terms=part,
        least=total,
    )
    return total(cells.gaps), *invert_cells(cells, error, level, 0 if sign > 0 else 1)
