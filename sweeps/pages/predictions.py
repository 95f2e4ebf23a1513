"""The data behind the figures of predictions, computed with NumPy.

Importing torch for ``trainables.metrics`` takes longer than writing a report. A test compares both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Final

import numpy as np
import numpy.typing as npt

from sweeps.judging.event_bins import share_ends
from trainables.files.rows import Array, Rows

NUM_BINS: Final = 15
_TIE_BITS: Final = 14  # the last of a confidence's 52, which rounding may change
_LEAST_SAMPLES: Final = 5  # below it the 95% interval spans more than half of the diagram
_EDGE_ROUNDING: Final = 8 * 2.0**-23  # a confidence this close above an edge, relatively, is at it


def probabilities(logits: npt.ArrayLike) -> Array:
    """The softmax (N, K) of logits, float64."""
    scaled = np.asarray(logits, dtype=np.float64)
    powers = np.exp(scaled - scaled.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


def top_label(probs: npt.ArrayLike) -> tuple[Array, Array]:
    """Largest probability and its class, each (N,)."""
    each = np.asarray(probs)
    predicted = each.argmax(axis=1)
    return each[np.arange(len(each)), predicted], predicted


@dataclass(frozen=True)
class Bin:
    """One bin of a reliability diagram that holds at least one sample.

    Attributes:
        lower: Its lower edge, exclusive except for the first bin.
        upper: Its upper edge, inclusive.
        low: Lower end of the 95% interval of the accuracy (Clopper and Pearson 1934).
        high: Its upper end.
    """

    lower: float
    upper: float
    count: int
    confidence: float
    accuracy: float
    low: float
    high: float

    @property
    def is_small(self) -> bool:
        """Whether its accuracy says nothing; a diagram then draws it hollow."""
        return self.count < _LEAST_SAMPLES


def reliability_bins(
    probs: npt.ArrayLike, labels: npt.ArrayLike, num_bins: int = NUM_BINS
) -> list[Bin]:
    """The non-empty bins of equal width of confidence: probs (N, K), labels (N,)."""
    confidence, predicted = top_label(probs)
    edges = np.linspace(0, 1, num_bins + 1)
    place = np.searchsorted(edges[1:-1] * (1 + _EDGE_ROUNDING), confidence, side="left")
    count, total, correct = (
        np.bincount(place, weights=weights, minlength=num_bins)
        for weights in (None, confidence, predicted == np.asarray(labels))
    )
    with np.errstate(invalid="ignore"):  # 0/0 in empty bins, which are omitted
        means = total / count, correct / count
    columns = (edges, edges[1:], count, *means, *share_ends(correct, count - correct))
    rows = zip(*(column.tolist() for column in columns), strict=False)
    return [Bin(*row) for row in rows if row[2]]


def expected_calibration_error(bins: Sequence[Bin]) -> float:
    gaps = sum(each.count * abs(each.confidence - each.accuracy) for each in bins)
    return gaps / sum(each.count for each in bins)


def parts_of_error(bins: Sequence[Bin]) -> tuple[float, float]:
    """The parts of the ECE from overconfident and from underconfident bins."""
    gaps = [each.count * (each.confidence - each.accuracy) for each in bins]
    count = sum(each.count for each in bins)
    return sum(max(gap, 0.0) for gap in gaps) / count, sum(max(-gap, 0.0) for gap in gaps) / count


@dataclass(frozen=True)
class Panel:
    """One of the reliability diagrams of a classifier, of all decisions together."""

    heading: str
    bins: list[Bin]


def reliability_panels(views: Mapping[str, Rows], num_bins: int = NUM_BINS) -> list[Panel]:
    """The reliability diagram of each of some predictions, by heading."""
    found = []
    for name, rows in views.items():
        labels, count, probs = rows.labels, rows.decisions, probabilities(rows.logits)
        parts = [(probs[k::count], labels[k::count]) for k in range(count)]
        errors = [expected_calibration_error(reliability_bins(*each, num_bins)) for each in parts]
        found.append(
            Panel(f"{name}, ECE {fmean(errors):.4f}", reliability_bins(probs, labels, num_bins))
        )
    return found


def risk_coverage(probs: npt.ArrayLike, labels: npt.ArrayLike) -> Array:
    """See :func:`trainables.metrics.risk_coverage`."""
    confidence, predicted = top_label(np.asarray(probs, dtype=np.float64))
    # Sums in another order are still ties, as in trainables.metrics.
    bits = confidence.view(np.int64) + (1 << _TIE_BITS - 1) >> _TIE_BITS
    _, group, size = np.unique(-bits, return_inverse=True, return_counts=True)
    errors = np.bincount(group, weights=predicted != np.asarray(labels), minlength=len(size))
    # Samples of equal confidence share their errors evenly.
    return np.asarray(np.cumsum(np.repeat(errors / size, size)) / np.arange(1, len(group) + 1))
