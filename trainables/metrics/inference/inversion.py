"""Confidence intervals of calibration errors by inverting a test.

A calibration error is the norm of a vector of noisy gaps (confidence - accuracy). Noise makes the
vector longer, and a bootstrap adds the noise a second time. A test inversion avoids this: the
interval contains the true gaps for which the observed error would be plausible.

The true gaps are assumed to lie on a line: all 0 at size 0, and equal to those of a fitted
calibration curve at size 1. The curve is a logistic recalibration plus, per bin, the part of the
residual that exceeds noise. A size is in the interval if the observed error lies between the outer
quantiles of the errors that samples would show at this size (`sampled_errors`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit, ndtri

Array = NDArray[np.float64]

_NEWTON_STEPS = 15
_NEWTON_PRECISION = 1e-6
_LARGEST_STEP = 2.0
_LARGEST_SIZE = 2.0**20
_NEVER = 1e-12
_PRECISION = 4e-3  # precision of the size at the ends of the interval
_SMALLEST_PROBABILITY = 1e-6
_POWER_CONSTRAINT = 0.16
_CLEAR = 2.0  # standard errors
_TINY = 1e-300


@dataclass(frozen=True)
class Cells:
    """Samples of similar confidence, summed over G non-empty cells, (G,) each.

    ``count`` is the number of samples, ``confidence`` their mean confidence, ``positives`` the
    number of correct predictions, all float64. ``group`` is the bin of each cell: within a bin, the
    fitted curve deviates from the logistic one by the same amount.
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
        """Sum of (confidence - correct) per cell, divided by N, (G,)."""
        gaps: Array = (self.count * self.confidence - self.positives) / self.num_samples
        return gaps


@dataclass(frozen=True)
class ErrorOfGaps:
    """A calibration error as a function of the gaps of cells.

    Attributes:
        statistic: Maps observed gaps (R, G) to the errors (R,), or to an increasing function of
            them.
        population: Maps noise-free gaps (G,) to the error.
        power: 1 if the statistic grows like the gaps, 2 if it grows like their squares.
        terms: Maps gaps (..., G) to the contribution of each cell to the statistic, (..., G); None
            if the statistic is not a sum over cells.
        least: Maps observed gaps (G,) to an estimate of the error that is not too small on average
            if the gaps have one sign. With it, the upper end does not rely on the fitted curve
            alone, which may miss the gaps of a few samples.
        farthest_accuracy: The accuracy of all cells with which the error is largest, 0 or 1.
        tail_share: The part of the nominal probability of a miss that each end may use. Below 1
            for an error whose size depends on more than the fitted curve shows.
    """

    statistic: Callable[[Array], Array]
    population: Callable[[Array], float]
    power: int = 1
    terms: Callable[[Array], Array] | None = None
    least: Callable[[Array], float] | None = None
    farthest_accuracy: float = 0.0
    tail_share: float = 1.0

    @classmethod
    def of_sum(cls, terms: Callable[[Array], Array], farthest_accuracy: float = 0.0) -> Self:
        """The sum of the cells' `terms`, which are at least 0 and grow like the gaps."""

        def total(gaps: Array) -> float:
            return float(terms(gaps).sum())

        return cls(
            lambda gaps: terms(gaps).sum(axis=1),
            total,
            terms=terms,
            least=total,
            farthest_accuracy=farthest_accuracy,
        )


class Model(Protocol):
    """Distribution of the error that samples show, given the true gaps: direction times size."""

    def population(self, direction: Array, size: float) -> float:
        """The error of the population."""

    def share_above(self, observed: float, direction: Array, size: float) -> float:
        """Probability that a sample shows more than `observed`."""

    def quantile_without_gaps(self, share: float) -> float:
        """Quantile, at `share`, of the error that samples of a calibrated model show."""


def lower_end(model: Model, observed: float, level: float, direction: Array) -> float:
    """The lower end along a further line, for an error that no calibrated model would show."""
    return _population_at([_Line(model, observed, direction)], (1 - level) / 2)


def invert(
    model: Model, observed: float, level: float, directions: Sequence[Array]
) -> tuple[float, float]:
    """Both ends of the interval of the population's error, from the error `observed` on a sample.

    The lower end is 0 if the observed error is plausible for a calibrated model. If a calibrated
    model would show a larger error in 84% of samples, the upper end is computed from that quantile
    instead, so a lucky sample does not shrink the interval to nothing (Cowan et al. 2011,
    arXiv:1105.3166). The first of the `directions` is that of the true gaps; the others are
    fallbacks for errors that it does not reach.
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
    """Probability, by size of the gaps along a direction, of an error above the observed one."""

    def __init__(self, model: Model, observed: float, direction: Array) -> None:
        self.population = partial(model.population, direction)
        self.share_above = cache(partial(model.share_above, observed, direction))

    def crossing(self, share: float) -> float | None:
        """The size at which a share of samples shows a larger error; None if there is none."""
        from scipy.optimize import brentq  # slow to import

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
    """The population's error at which a share of samples shows more than the observed error."""
    for line in lines:
        if (size := line.crossing(share)) is not None:
            return line.population(size)
    return max(line.population(_LARGEST_SIZE) for line in lines)


def fit_curve(cells: Cells) -> Array:
    """Estimated accuracy of each cell, shrunk by noise, shape (G,)."""
    logistic = _logistic_recalibration(cells)
    size = int(cells.group.max()) + 1
    count = np.bincount(cells.group, cells.count, size)
    left = np.bincount(cells.group, cells.positives - cells.count * logistic, size)
    variance = np.bincount(cells.group, cells.count * logistic * (1 - logistic), size)
    count = np.maximum(count, 1)
    residual, noise = left / count, variance / count**2
    # The part of the residuals' mean square that noise does not explain (empirical Bayes).
    signal = max(0.0, float((count * (residual**2 - noise)).sum() / count.sum()))
    kept = signal / (signal + noise + _TINY) * residual
    curve: Array = np.clip(logistic + kept[cells.group], 0, 1)
    return curve


def clear_gaps(cells: Cells) -> Array:
    """Accuracy less confidence in the groups where noise does not explain it, 0 in others, (G,).

    A fitted curve gives all cells gaps. Where most are calibrated, noise makes their share of the
    error, so that a smaller error of the population suffices. The least likely gap is always kept.
    """
    size = int(cells.group.max()) + 1
    count = np.maximum(np.bincount(cells.group, cells.count, size), 1)
    sure = np.bincount(cells.group, cells.count * cells.confidence, size) / count
    right = np.bincount(cells.group, cells.positives, size) / count
    variance = np.maximum(sure * (1 - sure), right * (1 - right)) / count
    deviates = np.abs(right - sure) / np.sqrt(np.maximum(variance, _TINY))
    clear = deviates > min(_CLEAR, float(deviates.max()) * (1 - 1e-9))
    gaps: Array = np.where(clear, right - sure, 0.0)[cells.group]
    return gaps


def _logistic_recalibration(cells: Cells) -> Array:
    """expit(a + b logit(confidence)): MAP fit, the prior weighs one sample at a = 0, b = 1."""
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
    # Shrink each parameter to the part that noise does not explain, relative to the other: a curve
    # fitted to noise crosses the diagonal, and near it small gaps appear as larger ones.
    variance = np.diag(np.linalg.inv(curvature))
    kept = np.maximum(0, 1 - variance / np.maximum((weights - start) ** 2, _TINY))
    if kept.max() > 0:
        weights = start + kept / kept.max() * (weights - start)
    fitted: Array = expit(weights @ basis)
    return fitted
