"""Confidence intervals of calibration errors by inverting a test.

A calibration error is the size of a vector of gaps (confidence - accuracy) that are known with
noise, and a noisy vector is longer than the true one; a bootstrap adds the noise a second time. So
the question is turned round: which sizes of the true gaps would show an error like the observed?

The true gaps are taken along a line: none at size 0, those of a calibration curve fitted to the
data at size 1. The curve is a logistic recalibration and, bin by bin, as much of what it leaves as
exceeds noise. A size belongs to the interval if the observed error lies between the outer quantiles
of the errors that other samples would show there (`_sampled_errors`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import expit, logit, ndtri

Array = NDArray[np.float64]

_NEWTON_STEPS = 15
_NEWTON_PRECISION = 1e-6
_LARGEST_STEP = 2.0
_LARGEST_SIZE = 2.0**20
_NEVER = 1e-12
_PRECISION = 4e-3  # of the size at an end of the interval
_SMALLEST_PROBABILITY = 1e-6
_POWER_CONSTRAINT = 0.16
_TINY = 1e-300


@dataclass(frozen=True)
class Cells:
    """Samples of like confidence, summed over G cells, none of them empty.

    Attributes:
        count: Number of samples, float64 (G,).
        confidence: Mean confidence, (G,).
        positives: Number of right predictions, (G,).
        group: Bin of each cell, int64 (G,), in which the curve may leave the logistic one.
    """

    count: Array
    confidence: Array
    positives: Array
    group: NDArray[np.int64]

    @property
    def num_samples(self) -> float:
        """Number of samples in all cells."""
        return float(self.count.sum())

    @property
    def gaps(self) -> Array:
        """Sum of (confidence - correct) per cell, over N, (G,)."""
        gaps: Array = (self.count * self.confidence - self.positives) / self.num_samples
        return gaps


@dataclass(frozen=True)
class ErrorOfGaps:
    """What a calibration error makes of the gaps of cells.

    Attributes:
        statistic: Of sums of (confidence - correct) per cell, over N, (R, G), the errors (R,), or
            any rising function of them.
        population: Of the same sums without noise, (G,), the error itself.
        power: 1 where the statistic grows with the gaps, 2 with their squares.
        terms: Of such sums (..., G), what each cell adds to the statistic, (..., G), if it is a sum
            over cells.
        fine: Whether cells are finer than the fitted curve, which then may miss the gaps of a few
            samples: the upper end does not rely on the curve alone.
    """

    statistic: Callable[[Array], Array]
    population: Callable[[Array], float]
    power: int = 1
    terms: Callable[[Array], Array] | None = None
    fine: bool = False


class Model(Protocol):
    """Errors that samples would show if the true gaps lay along a line, by their size on it."""

    def population(self, direction: Array, size: float) -> float:
        """The error of the population."""
        ...

    def share_above(self, observed: float, direction: Array, size: float) -> float:
        """Probability that a sample shows more than `observed`."""
        ...

    def quantile_without_gaps(self, share: float) -> float:
        """What a share of samples of a calibrated model does not reach."""
        ...


def invert(
    model: Model, observed: float, level: float, directions: Sequence[Array]
) -> tuple[float, float]:
    """Both ends of the interval of the population's error.

    The lower end is 0 where a calibrated model would show as much. An error so small that a
    calibrated model would show more in 84% of samples counts as that quantile for the upper end, so
    that luck alone does not make the interval shrink to nothing (Cowan et al. 2011,
    arXiv:1105.3166).

    Args:
        model: What samples would show.
        observed: What the sample at hand shows.
        level: Level of the interval, in (0, 1).
        directions: The line to look along, and others for where it does not reach far enough.
    """
    tail = (1 - level) / 2
    low = 0.0
    lines = [_Line(model, observed, direction) for direction in directions]
    if observed > 0 and lines[0].share_above(0.0) < tail:  # no sample shows less than 0
        low = _population_at(lines, tail)
    least = model.quantile_without_gaps(_POWER_CONSTRAINT)
    if observed < least:
        lines = [_Line(model, least, direction) for direction in directions]
    return low, max(low, _population_at(lines, 1 - tail))


class _Line:
    """Sizes of the gaps along a direction, and how likely each shows more than was observed."""

    def __init__(self, model: Model, observed: float, direction: Array) -> None:
        self.population = partial(model.population, direction)
        self.share_above = cache(partial(model.share_above, observed, direction))

    def crossing(self, share: float) -> float | None:
        """The size from which on a share of samples shows more; None if there is none."""

        def rising(size: float) -> float:  # almost linear
            return float(ndtri(np.clip(self.share_above(size), _NEVER, 1 - _NEVER)) - ndtri(share))

        low, high = 0.0, 1.0
        if rising(low) >= 0:
            return low
        while rising(high) < 0:
            low, high = high, 4 * high
            if high > _LARGEST_SIZE:
                return None
        return float(brentq(rising, low, high, rtol=_PRECISION))


def _population_at(lines: Sequence[_Line], share: float) -> float:
    """The population's error with which a share of samples shows more than was observed."""
    for line in lines:
        size = line.crossing(share)
        if size is not None:
            return line.population(size)
    return max(line.population(_LARGEST_SIZE) for line in lines)


def fit_curve(cells: Cells) -> Array:
    """Accuracy of each cell as far as the data distinguish it from noise, shape (G,)."""
    logistic = _logistic_recalibration(cells)
    size = int(cells.group.max()) + 1
    count = np.bincount(cells.group, cells.count, size)
    left = np.bincount(cells.group, cells.positives - cells.count * logistic, size)
    variance = np.bincount(cells.group, cells.count * logistic * (1 - logistic), size)
    count = np.maximum(count, 1)
    residual, noise = left / count, variance / count**2
    # Of the residuals' mean square, what noise does not explain (empirical Bayes).
    signal = max(0.0, float((count * (residual**2 - noise)).sum() / count.sum()))
    kept = signal / (signal + noise + _TINY) * residual
    curve: Array = np.clip(logistic + kept[cells.group], 0, 1)
    return curve


def _logistic_recalibration(cells: Cells) -> Array:
    """expit(a + b logit(confidence)), most likely under a prior of one sample at a = 0, b = 1."""
    score = logit(np.clip(cells.confidence, _SMALLEST_PROBABILITY, 1 - _SMALLEST_PROBABILITY))
    centre = float(cells.count @ score / cells.num_samples)
    basis = np.stack([np.ones_like(score), score - centre])
    scale = float(cells.count @ basis[1] ** 2 / cells.num_samples)
    prior = np.diag([1.0, max(scale, 1.0)])
    start = np.array([centre, 1.0])
    weights = start.copy()
    for _ in range(_NEWTON_STEPS):
        probs = expit(weights @ basis)
        slope = basis @ (cells.positives - cells.count * probs) - prior @ (weights - start)
        curvature = (basis * (cells.count * probs * (1 - probs))) @ basis.T + prior
        step = np.linalg.solve(curvature, slope)
        weights += np.clip(step, -_LARGEST_STEP, _LARGEST_STEP)
        if np.abs(step).max() < _NEWTON_PRECISION:
            break
    # Of each parameter what noise does not explain, relative to the other: a curve of noise crosses
    # the diagonal, and around it small gaps show as larger ones.
    variance = np.diag(np.linalg.inv(curvature))
    kept = np.maximum(0, 1 - variance / np.maximum((weights - start) ** 2, _TINY))
    if kept.max() > 0:
        weights = start + kept / kept.max() * (weights - start)
    fitted: Array = expit(weights @ basis)
    return fitted
