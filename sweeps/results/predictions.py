"""What pictures need of a trial's predictions, with NumPy alone.

Torch, which ``trainables.metrics`` is made with, takes longer to import than a whole report takes
to be drawn. A test holds what is here to the metrics.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from trainables.predictions import Array

_BINS: Final = 15


def probabilities(logits: npt.ArrayLike, temperature: float = 1.0) -> Array:
    """The softmax (N, K) of logits divided by a temperature, float64."""
    scaled = np.asarray(logits, dtype=np.float64) / temperature
    powers = np.exp(scaled - scaled.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


def top_label(probs: npt.ArrayLike) -> tuple[Array, Array]:
    """Largest probability and its class, each (N,)."""
    each = np.asarray(probs)
    predicted = each.argmax(axis=1)
    return each[np.arange(len(each)), predicted], predicted


@dataclass(frozen=True)
class Bins:
    """What a reliability diagram shows, an array of length 15 each.

    Attributes:
        edges: Of the bins, one more: a bin has its upper one, and the first has 0.
        count: Number of samples.
        confidence: Mean confidence; NaN where the bin is empty.
        accuracy: Share of right predictions; NaN where the bin is empty.
    """

    edges: Array
    count: Array
    confidence: Array
    accuracy: Array

    @property
    def calibration_error(self) -> float:
        """The expected calibration error over these bins."""
        gaps = np.nan_to_num(np.abs(self.confidence - self.accuracy))
        return float((gaps * self.count).sum() / self.count.sum())


def reliability_bins(probs: npt.ArrayLike, labels: npt.ArrayLike) -> Bins:
    """As :func:`trainables.metrics.reliability_bins`."""
    confidence, predicted = top_label(probs)
    edges = np.linspace(0, 1, _BINS + 1)
    place = np.searchsorted(edges[1:-1], confidence, side="left")
    count, sure, right = (
        np.bincount(place, weights=weights, minlength=_BINS)
        for weights in (None, confidence, predicted == np.asarray(labels))
    )
    with np.errstate(invalid="ignore"):  # of an empty bin
        return Bins(edges, count, sure / count, right / count)


def risk_coverage(probs: npt.ArrayLike, labels: npt.ArrayLike) -> Array:
    """As :func:`trainables.metrics.risk_coverage`."""
    confidence, predicted = top_label(probs)
    _, group, size = np.unique(-confidence, return_inverse=True, return_counts=True)
    errors = np.bincount(group, weights=predicted != np.asarray(labels), minlength=len(size))
    # The expected number of errors grows by a group's share with each of its samples.
    return np.asarray(np.cumsum(np.repeat(errors / size, size)) / np.arange(1, len(group) + 1))
