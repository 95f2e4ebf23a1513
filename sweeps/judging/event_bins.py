"""Quantile bins of the probability of an event, computed with NumPy alone: pages import it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from scipy.special import betaincinv  # scipy.stats takes a second to import

NUM_BINS: Final = 15
_TAIL: Final = 0.025  # probability outside a bin's 95% interval, on each side

Array = npt.NDArray[Any]


def event_index(labels: npt.ArrayLike) -> int:
    """The less frequent of two classes, from labels (N,); class 1 if both are equally frequent."""
    return int(np.asarray(labels).mean() <= 0.5)


def share_ends(ones: Array, zeros: Array) -> tuple[Array, Array]:
    """Ends of 95 % intervals of proportions (Clopper and Pearson 1934), from whole numbers."""
    with np.errstate(invalid="ignore"):  # ends that are not used
        low = np.where(ones > 0, betaincinv(ones, zeros + 1, _TAIL), 0.0)
        high = np.where(zeros > 0, betaincinv(ones + 1, zeros, 1 - _TAIL), 1.0)
    return low, high


@dataclass(frozen=True)
class EventBins:
    """Samples, mean probability and frequency of each bin that holds samples.

    `lows` and `highs` are ends of 95 % intervals (Clopper and Pearson 1934); empty if samples come
    in clusters.
    """

    counts: tuple[int, ...]
    means: tuple[float, ...]
    frequencies: tuple[float, ...]
    lows: tuple[float, ...]
    highs: tuple[float, ...]


def event_bins(
    probs: npt.ArrayLike, event: npt.ArrayLike, *, independent: bool = True
) -> EventBins:
    """15 bins of about equal size, from probabilities (N,) and whether it happened (N,).

    Equal probabilities are in one bin, that of the middle one of them.
    """
    values, place, count = np.unique(
        np.asarray(probs, np.float64), return_inverse=True, return_counts=True
    )
    middle = count.cumsum() - (count + 1) / 2
    of_value = (NUM_BINS * middle / count.sum()).astype(np.int64)
    _, bins = np.unique(of_value[place], return_inverse=True)
    n = np.bincount(bins)
    yes = np.bincount(bins, np.asarray(event, np.float64))
    means = np.bincount(bins, values[place]) / n
    ends = share_ends(yes, n - yes) if independent else (np.empty(0), np.empty(0))
    return EventBins(*(tuple(column.tolist()) for column in (n, means, yes / n, *ends)))
