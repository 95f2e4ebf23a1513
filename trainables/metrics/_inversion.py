"""Confidence intervals of calibration errors by inverting a test.

A calibration error is the size of a vector of gaps (confidence - accuracy) that are known with
noise, and a noisy vector is longer than the true one; a bootstrap adds the noise a second time. So
the question is turned round: which sizes of the true gaps would show an error like the observed?

The true gaps are taken along a line: none at size 0, those of a calibration curve fitted to the
data at size 1. The curve is a logistic recalibration and, bin by bin, as much of what it leaves as
exceeds noise. For each size, errors of other samples are drawn (a binomial number of right
predictions per cell, or a normal one where it is large); a size belongs to the interval if the
observed error lies between the outer quantiles of the drawn ones.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import expit, logit, ndtr

Array = NDArray[np.float64]

_NUM_DRAWS = 400
_NEWTON_STEPS = 15
_LARGEST_STEP = 2.0
_LARGEST_SIZE = 2.0**20
_PRECISION = 4e-3  # of the size at an end of the interval
_SMALLEST_PROBABILITY = 1e-6
_SMOOTHING = 0.1  # of the drawn errors' deviation: makes their distribution function continuous
_POWER_CONSTRAINT = 0.16
_RARE = 10  # expected number of a cell's right, or wrong, predictions
_FEW_CELLS = 64
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
    """

    statistic: Callable[[Array], Array]
    population: Callable[[Array], float]
    power: int = 1


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
    if model.share_above(observed, directions[0], 0) < tail:
        low = _population_at(model, observed, tail, directions)
    observed = max(observed, model.quantile_without_gaps(_POWER_CONSTRAINT))
    return low, max(low, _population_at(model, observed, 1 - tail, directions))


def _population_at(
    model: Model, observed: float, share: float, directions: Sequence[Array]
) -> float:
    """The population's error with which a share of samples shows more than `observed`."""
    for line in directions:
        size = _crossing(lambda s: model.share_above(observed, line, s) - share)  # noqa: B023
        if size is not None:
            return model.population(line, size)
    return max(model.population(line, _LARGEST_SIZE) for line in directions)


def invert_cells(
    cells: Cells, error: ErrorOfGaps, level: float, seed: int = 0
) -> tuple[float, float]:
    """Both ends of the interval of an error of cells, by drawn samples.

    Args:
        cells: The samples.
        error: What is made of the gaps.
        level: Level of the interval, in (0, 1).
        seed: Seed of the draws.
    """
    # Along the second line every error below the mean confidence is reached.
    observed = float(error.statistic(cells.gaps[None])[0])
    directions = fit_curve(cells) - cells.confidence, -cells.confidence
    return invert(DrawnErrors(cells, error, seed), observed, level, directions)


def fit_curve(cells: Cells) -> Array:
    """Accuracy of each cell as far as the data tell it from noise, shape (G,)."""
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


class DrawnErrors:
    """Errors of drawn samples of cells."""

    def __init__(
        self, cells: Cells, error: ErrorOfGaps, seed: int, num_draws: int = _NUM_DRAWS
    ) -> None:
        self.cells, self.error, self.seed = cells, error, seed
        generator = np.random.default_rng(seed)
        self.deviates = generator.standard_normal((num_draws, len(cells.count)))

    def population(self, direction: Array, size: float) -> float:
        return self.error.population(self._gaps(self._accuracy(direction, size)))

    def share_above(self, observed: float, direction: Array, size: float) -> float:
        """Probability that a sample shows more than `observed`."""
        accuracy = self._accuracy(direction, size)
        drawn = self.error.statistic(self._draw(accuracy))
        # Other samples hold other confidences too: that spreads the mean of the gaps.
        per_sample = np.abs(self.cells.confidence - accuracy) ** self.error.power
        weights = self.cells.count / self.cells.num_samples
        spread = weights @ per_sample**2 - (weights @ per_sample) ** 2
        deviation = np.sqrt(
            max(spread, 0) / self.cells.num_samples + (_SMOOTHING * drawn.std()) ** 2
        )
        return float(ndtr((drawn - observed) / (deviation + _TINY)).mean())

    def quantile_without_gaps(self, share: float) -> float:
        return float(np.quantile(self.error.statistic(self.draw_without_gaps()), share))

    def draw_without_gaps(self) -> Array:
        """Sums of (confidence - correct) per cell, over N, of calibrated samples, (R, G)."""
        return self._draw(np.clip(self.cells.confidence, 0, 1))

    def _draw(self, accuracy: Array) -> Array:
        cells = self.cells
        noise = np.sqrt(cells.count * accuracy * (1 - accuracy)) / cells.num_samples
        drawn = self._gaps(accuracy) + noise * self.deviates
        # Where few are expected to be right, or wrong, their number is not normal. Fine cells of a
        # few samples each are: what counts there are sums of cells.
        expected = cells.count * np.minimum(accuracy, 1 - accuracy)
        rare = (expected < _RARE) & ((cells.count >= _RARE) | (len(cells.count) <= _FEW_CELLS))
        if rare.any():
            count = cells.count[rare]
            generator = np.random.default_rng(self.seed)
            positives = generator.binomial(
                count.astype(np.int64), accuracy[rare], (len(drawn), len(count))
            )
            drawn[:, rare] = (count * cells.confidence[rare] - positives) / cells.num_samples
        return drawn

    def _gaps(self, accuracy: Array) -> Array:
        gaps: Array = self.cells.count * (self.cells.confidence - accuracy)
        return gaps / self.cells.num_samples

    def _accuracy(self, direction: Array, size: float) -> Array:
        accuracy: Array = np.clip(self.cells.confidence + size * direction, 0, 1)
        return accuracy


def _crossing(rising: Callable[[float], float]) -> float | None:
    """Where a rising function of a size above 0 crosses 0; None if it does nowhere."""
    high = 1.0
    while rising(high) < 0:
        high *= 4
        if high > _LARGEST_SIZE:
            return None
    return float(brentq(rising, 0, high, rtol=_PRECISION)) if rising(0) < 0 else 0.0


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
        weights += np.clip(np.linalg.solve(curvature, slope), -_LARGEST_STEP, _LARGEST_STEP)
    fitted: Array = expit(weights @ basis)
    return fitted
