"""Calibration errors of rows in clusters: confidence intervals and noise."""

import numpy as np
from scipy.special import ndtr
from torch import Tensor

from trainables.metrics.inference.clusters import Array, Clusters
from trainables.metrics.inference.influence import Ends
from trainables.metrics.inference.inversion import Cells, ErrorOfGaps, fit_curve, invert
from trainables.metrics.inference.noise import as_independent, drawn_noise
from trainables.metrics.inference.top_label_gaps import Problem

_NUM_DRAWS = 1024
_SMOOTHING = 0.1  # same as in `sampled_errors`
_TINY = 1e-300


def clustered_ends(
    problem: Problem, confidence: Tensor, correct: Tensor, clusters: Clusters, level: float
) -> Ends:
    """Both ends of the interval of a calibration error, see :mod:`inversion`.

    There are two lines of true gaps, each with a fallback for larger errors: those of a fitted
    calibration curve, and equal gaps in all cells. A curve fitted to few clusters is uncertain, and
    its gaps may cancel noise where the true ones do not, so the wider of the two intervals is used.
    """
    cells, error = problem
    covariance, noise = clustered_noise(cells, confidence, correct, clusters)
    variance, least = float(np.trace(covariance)), len(clusters) / len(confidence)
    fitted = fit_curve(as_independent(cells, variance, least)) - cells.confidence
    alike = np.full_like(fitted, -cells.gaps.sum())
    observed = float(error.statistic(cells.gaps[None])[0])
    level = 1 - error.tail_share * (1 - level)
    model = _ClusteredErrors(cells, error, noise)
    ends = [
        invert(model, observed, level, (direction, -cells.confidence))
        for direction in (fitted, alike)
    ]
    return min(low for low, _ in ends), max(high for _, high in ends)


def clustered_noise(
    cells: Cells, confidence: Tensor, correct: Tensor, clusters: Clusters
) -> tuple[Array, Array]:
    """Covariance (C, C) of the gaps of cells over clusters, and draws of their noise (R, C).

    The noise is that of a calibrated model with equally correlated errors.
    """
    sure, right = (each.double().cpu().numpy() for each in (confidence, correct))
    count = len(sure)
    place = np.empty(count, np.int64)  # cells are in the order of confidence
    place[sure.argsort(kind="stable")] = np.arange(len(cells.count)).repeat(
        cells.count.astype(np.int64)
    )
    covariance = clusters.covariance(clusters.cell_sums(place, sure - right, len(cells.count)))
    freedom = clusters.freedom(sure - right)
    return covariance, drawn_noise(covariance, cells.count, count, _NUM_DRAWS, freedom)


class _ClusteredErrors:
    """Distribution of the error over samples, given draws of the gaps' noise (R, C); a `Model`."""

    def __init__(self, cells: Cells, error: ErrorOfGaps, noise: Array) -> None:
        self._error, self._noise = error, noise
        self._share, self._confidence = cells.count / cells.num_samples, cells.confidence

    def _gaps(self, direction: Array, size: float) -> Array:
        accuracy = np.clip(self._confidence + size * direction, 0, 1)
        gaps: Array = self._share * (self._confidence - accuracy)
        return gaps

    def population(self, direction: Array, size: float) -> float:
        return self._error.population(self._gaps(direction, size))

    def share_above(self, observed: float, direction: Array, size: float) -> float:
        drawn = self._error.statistic(self._gaps(direction, size) + self._noise)
        spread = _SMOOTHING * float(drawn.std()) + _TINY
        return float(ndtr((drawn - observed) / spread).mean())

    def quantile_without_gaps(self, share: float) -> float:
        return float(np.quantile(self._error.statistic(self._noise), share))
