"""Calibration errors of rows in clusters: confidence intervals and noise."""

import math

import numpy as np
from torch import Tensor

from trainables.metrics.inference.clusters import Array, Clusters
from trainables.metrics.inference.influence import NO_INTERVAL, Ends
from trainables.metrics.inference.inversion import Cells, ErrorOfGaps, fit_curve, invert
from trainables.metrics.inference.sampled_errors import Drawn, invert_cells, normal_deviates
from trainables.metrics.inference.top_label_gaps import Problem, arrays_of

_NUM_DRAWS = 1024
_TINY = 1e-300


def ends_of_error(
    problem: Problem,
    confidence: Tensor,
    correct: Tensor,
    level: float,
    clusters: Clusters | None = None,
) -> Ends:
    """Both ends of the interval of a calibration error, see :mod:`inversion`.

    With clusters, there are two lines of true gaps, each with a fallback for larger errors: those
    of a fitted calibration curve, and equal gaps in all cells. A curve fitted to few clusters is
    uncertain, and its gaps may cancel noise where the true ones do not, so the wider of the two
    intervals is used. With too few clusters, both ends are nan.
    """
    if clusters is None:
        return invert_cells(*problem, level)
    if not clusters.enough:
        return NO_INTERVAL
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
    sure, right = arrays_of(confidence, correct)
    count = len(sure)
    place = np.empty(count, np.int64)  # cells are in the order of confidence
    place[sure.argsort(kind="stable")] = np.arange(len(cells.count)).repeat(
        cells.count.astype(np.int64)
    )
    covariance = clusters.covariance(clusters.cell_sums(place, sure - right, len(cells.count)))
    freedom = clusters.freedom(sure - right)
    return covariance, drawn_noise(covariance, cells.count, count, _NUM_DRAWS, freedom)


class _ClusteredErrors(Drawn):
    """Errors of samples in clusters, from draws of the gaps' noise (R, C)."""

    def __init__(self, cells: Cells, error: ErrorOfGaps, noise: Array) -> None:
        super().__init__(cells, error)
        self._noise = noise

    def draw(self, accuracy: Array) -> Array:
        return self.gaps(accuracy) + self._noise

    def of_confidences(self, accuracy: Array) -> float:
        return 0.0  # the noise includes it


def drawn_noise(
    covariance: Array, count: Array, num_samples: int, num_draws: int, freedom: float = math.inf
) -> Array:
    """Draws (R, C) of the noise of gaps, with their covariance (C, C).

    ``count`` (C,) are the numbers of rows per cell. The draws are normal, scaled to the width of
    Student's t if ``freedom`` is finite.
    """
    # A cell whose predictions are all correct shows no noise, although it has some.
    wrong = 1 / (count + 2)  # error rate of such a cell by Laplace's rule
    diagonal = np.diag_indices_from(covariance)
    least = count * wrong * (1 - wrong) / num_samples**2
    covariance = covariance.copy()
    covariance[diagonal] = np.maximum(covariance[diagonal], least)
    values, vectors = np.linalg.eigh(covariance)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    drawn = normal_deviates(num_draws, len(covariance)) @ root.T
    if math.isfinite(freedom):
        squares = np.random.default_rng(1).chisquare(freedom, (num_draws, 1))
        drawn *= np.sqrt(freedom / np.maximum(squares, _TINY))
    return np.asarray(drawn)


def as_independent(cells: Cells, variance: float, least: float) -> Cells:
    """Cells of the number of independent rows whose gaps would have this total variance.

    It is at least the share ``least`` of the rows: a curve is fitted to these cells.
    """
    accuracy = cells.positives / cells.count
    alone = float((cells.count * accuracy * (1 - accuracy)).sum()) / cells.num_samples**2
    worth = max(least, min(1.0, alone / max(variance, _TINY)))
    return Cells(worth * cells.count, cells.confidence, worth * cells.positives, cells.group)
