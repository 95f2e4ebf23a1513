"""Confidence intervals for samples that come in clusters, such as the pixels of an image.

Samples of one cluster are similar: a thousand pixels of an image contain far less information than
a thousand images. Clusters are independent. So the noise of a mean is estimated from the means of
the clusters, and the joint noise of the bins of a calibration error from the sums of the clusters.
"""

import math
from functools import lru_cache

import numpy as np
from scipy.special import ndtr
from torch import Tensor

from trainables.metrics._influence import NO_INTERVAL, Ends, mean_interval
from trainables.metrics._inversion import Array, Cells, fit_curve, invert
from trainables.metrics._predictions import NUM_BINS, bin_top_label
from trainables.metrics.calibration import Binning
from trainables.metrics.proper_scores import log_losses, rights, squared_errors, wrongs

_MIN_CLUSTERS = 20
_NUM_DRAWS = 2048
_SMOOTHING = 0.1  # same as in `_sampled_errors`
_TINY = 1e-300


def clustered_interval(
    name: str, probs: Tensor, labels: Tensor, cluster_size: int, level: float
) -> Ends:
    """Both ends of the interval of a metric; nan with few clusters or without a known method.

    The rows of a cluster are consecutive: `probs` are (N · size, K), `labels` (N · size,).
    """
    if len(labels) // cluster_size < _MIN_CLUSTERS:
        return NO_INTERVAL
    if name in _BINNED:
        sums = _BinnedSums(probs, labels, cluster_size, _BINNED[name])
        lines = [invert(sums, sums.observed, level, each) for each in sums.directions]
        return min(low for low, _ in lines), max(high for _, high in lines)
    if name not in _MEANS:
        return NO_INTERVAL
    per_sample, most = _MEANS[name]
    clusters = per_sample(probs, labels).double().reshape(-1, cluster_size).mean(dim=1)
    low, high = mean_interval(clusters, level)
    low, high = max(low, 0.0), min(high, most)
    return (low**0.5, high**0.5) if name == "root_brier" else (low, high)


def clustered_reference(
    name: str, probs: Tensor, labels: Tensor, cluster_size: int, share: float
) -> tuple[float, float, float]:
    """The error that a calibrated model with equally correlated mistakes would show.

    The mean, and the lower and upper end of the range that contains the share of the draws; nan if
    no method is known. Arguments as of :func:`clustered_interval`.
    """
    if name not in _BINNED or len(labels) // cluster_size < _MIN_CLUSTERS:
        return math.nan, *NO_INTERVAL
    drawn = np.abs(_BinnedSums(probs, labels, cluster_size, _BINNED[name]).noise).sum(axis=1)
    low, high = np.quantile(drawn, ((1 - share) / 2, (1 + share) / 2))
    return float(drawn.mean()), float(low), float(high)


class _BinnedSums:
    """Sums of (confidence - correct) per bin, and their variation over clusters; a ``Model``.

    ``noise`` has draws of the sums minus their means, divided by the number of samples (R, B), and
    ``observed`` is the calibration error of the sample. ``directions`` are those of the true gaps,
    each with a fallback for larger errors: a fitted calibration curve, and equal gaps in all bins.
    A curve fitted to few clusters is uncertain, and its gaps may cancel noise where the true ones
    do not, so the wider of the two intervals is used.
    """

    def __init__(self, probs: Tensor, labels: Tensor, cluster_size: int, binning: Binning) -> None:
        bins, confidence, correct = bin_top_label(probs, labels, binning)
        count = len(bins)
        clusters = np.arange(count) // cluster_size
        places = clusters * NUM_BINS + bins
        size = NUM_BINS * (count // cluster_size)
        sums = np.bincount(places, confidence - correct, size).reshape(-1, NUM_BINS) / cluster_size
        filled = np.flatnonzero(np.bincount(bins, minlength=NUM_BINS))
        sums = sums[:, filled]
        self.noise = _draws(len(sums)) @ (sums - sums.mean(axis=0))
        in_bin, sure, right = (
            np.bincount(bins, weights, NUM_BINS)[filled].astype(np.float64)
            for weights in (None, confidence, correct)
        )
        # The curve is fitted to the number of independent samples that would have equal noise.
        accuracy = right / in_bin
        independent = float((in_bin * accuracy * (1 - accuracy)).sum()) / count**2
        worth = min(1.0, independent / max(float(sums.var(axis=0).sum()) / len(sums), _TINY))
        worth = max(worth, cluster_size**-1)
        cells = Cells(worth * in_bin, sure / in_bin, worth * right, np.arange(len(filled)))
        self._share, self._confidence = in_bin / count, cells.confidence
        self.observed = float(np.abs(sums.mean(axis=0)).sum())
        fitted, alike = fit_curve(cells) - cells.confidence, -sums.sum(axis=1).mean() + 0 * sure
        self.directions = [(each, -cells.confidence) for each in (fitted, alike)]

    def _gaps(self, direction: Array, size: float) -> Array:
        accuracy = np.clip(self._confidence + size * direction, 0, 1)
        gaps: Array = self._share * (self._confidence - accuracy)
        return gaps

    def population(self, direction: Array, size: float) -> float:
        return float(np.abs(self._gaps(direction, size)).sum())

    def share_above(self, observed: float, direction: Array, size: float) -> float:
        drawn = np.abs(self._gaps(direction, size) + self.noise).sum(axis=1)
        spread = _SMOOTHING * float(drawn.std()) + _TINY
        return float(ndtr((drawn - observed) / spread).mean())

    def quantile_without_gaps(self, share: float) -> float:
        return float(np.quantile(np.abs(self.noise).sum(axis=1), share))


@lru_cache(maxsize=4)
def _draws(clusters: int) -> Array:
    """Random weights (R, N) that turn the deviations of N clusters into noise of their mean.

    The weights are normal, scaled to the width of Student's t because the noise is estimated. They
    are the same in every call, so an interval is a function of the data.
    """
    random = np.random.default_rng(0)
    normal = random.standard_normal((_NUM_DRAWS, clusters))
    wider = np.sqrt((clusters - 1) / random.chisquare(clusters - 1, (_NUM_DRAWS, 1)))
    weights: Array = normal * wider / np.sqrt(clusters * (clusters - 1))
    weights.flags.writeable = False
    return weights


_BINNED: dict[str, Binning] = {"ece": "equal_width", "adaptive_ece": "equal_mass"}
_MEANS = {
    "nll": (log_losses, float("inf")),
    "brier": (squared_errors, 2.0),
    "root_brier": (squared_errors, 2.0),
    "accuracy": (rights, 1.0),
    "error": (wrongs, 1.0),
}
"""Metrics that are means over samples, each with its largest possible value."""

CLUSTERED_METRICS = (*_BINNED, *_MEANS)
"""Metrics that have an interval if samples come in clusters."""
