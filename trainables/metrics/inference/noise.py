"""Normal noise of the gaps of bins, and how many independent rows would show as much."""

import math
from functools import lru_cache

import numpy as np

from trainables.metrics.inference.clusters import Array
from trainables.metrics.inference.inversion import Cells

_TINY = 1e-300


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
    drawn = _deviates(num_draws, len(covariance)) @ root.T
    if math.isfinite(freedom):
        squares = np.random.default_rng(1).chisquare(freedom, (num_draws, 1))
        drawn *= np.sqrt(freedom / np.maximum(squares, _TINY))
    return np.asarray(drawn)


@lru_cache(maxsize=4)
def _deviates(num_draws: int, num_cells: int) -> Array:
    """The same in every call, so an interval is a function of the data."""
    deviates = np.random.default_rng(0).standard_normal((num_draws, num_cells))
    deviates.flags.writeable = False
    return deviates


def as_independent(cells: Cells, variance: float, least: float) -> Cells:
    """Cells of the number of independent rows whose gaps would have this total variance.

    It is at least the share ``least`` of the rows: a curve is fitted to these cells.
    """
    accuracy = cells.positives / cells.count
    alone = float((cells.count * accuracy * (1 - accuracy)).sum()) / cells.num_samples**2
    worth = max(least, min(1.0, alone / max(variance, _TINY)))
    return Cells(worth * cells.count, cells.confidence, worth * cells.positives, cells.group)
