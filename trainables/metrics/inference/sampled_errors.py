"""Distribution of the calibration error over samples, for `inversion`.

The number of correct predictions of a cell is binomial; a normal approximation is used where many
are expected. If the error is a sum over cells, its distribution is a convolution. Otherwise, it is
simulated.
"""

from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.fft import irfft, rfft
from scipy.special import gammaln, ndtr, ndtri, xlog1py, xlogy

from trainables.metrics.inference.inversion import (
    Array,
    Cells,
    ErrorOfGaps,
    Model,
    clear_gaps,
    fit_curve,
    invert,
    lower_end,
)

_NUM_DRAWS = 1024
_GRID = 1024
_NODES = np.linspace(-5, 5, 101)
_NODE_WEIGHTS = np.diff(ndtr(np.concatenate([[-np.inf], _NODES[1:] - 0.05, [np.inf]])))
_SMOOTHING = 0.1  # in standard deviations: makes the distribution function of errors continuous
_RARE = 10  # expected number of correct, or wrong, predictions below which a count is not normal
_MOST_RARE = 45  # with a mean of 10, a larger count has probability 1e-13
_FEW_CELLS = 64
_NEVER = 1e-9
_TINY = 1e-300


def invert_cells(cells: Cells, error: ErrorOfGaps, level: float) -> tuple[float, float]:
    """Both ends of the confidence interval of a calibration error, at this level in (0, 1)."""
    # Along the second direction, the largest possible error is reached.
    observed = float(error.statistic(cells.gaps[None])[0])
    level = 1 - error.tail_share * (1 - level)
    farthest = error.farthest_accuracy - cells.confidence
    directions = fit_curve(cells) - cells.confidence, farthest
    model = sampled_errors(cells, error)
    low, high = invert(model, observed, level, directions)
    if low > 0:
        low = min(low, lower_end(model, observed, level, clear_gaps(cells)))
    if error.least is not None and low > 0:
        # The upper end is at least this estimate + z standard errors of the sum of the gaps.
        right, sure, count = cells.positives, cells.confidence, cells.num_samples
        squares = float((right * (1 - sure) ** 2 + (cells.count - right) * sure**2).sum()) / count
        deviation = np.sqrt(max(squares - float(cells.gaps.sum()) ** 2, 0.0) / count)
        high = max(high, error.least(cells.gaps) + float(ndtri((1 + level) / 2)) * deviation)
    return low, high


def corrected_error(cells: Cells, error: ErrorOfGaps) -> float:
    """The error without what noise adds: half of all samples would show more than the observed one.

    It is 0 if a calibrated model shows more in half of all samples.
    """
    observed = float(error.statistic(cells.gaps[None])[0])
    directions = fit_curve(cells) - cells.confidence, -cells.confidence
    return invert(sampled_errors(cells, error), observed, 0.0, directions)[0]


def sampled_errors(cells: Cells, error: ErrorOfGaps) -> Model:
    """The distribution of the errors that samples show: exact if possible, else simulated."""
    return DrawnErrors(cells, error) if error.terms is None else SummedErrors(cells, error)


class _Binomials:
    """Numbers of correct predictions in cells, for gaps along a direction."""

    def __init__(self, cells: Cells, error: ErrorOfGaps) -> None:
        self.cells, self.error = cells, error

    def population(self, direction: Array, size: float) -> float:
        return self.error.population(self.gaps(self.accuracy(direction, size)))

    def gaps(self, accuracy: Array) -> Array:
        """Expected sums of (confidence - correct) per cell, divided by N, (G,)."""
        gaps: Array = self.cells.count * (self.cells.confidence - accuracy)
        return gaps / self.cells.num_samples

    def accuracy(self, direction: Array, size: float) -> Array:
        accuracy: Array = np.clip(self.cells.confidence + size * direction, 0, 1)
        return accuracy

    def noise(self, accuracy: Array) -> Array:
        """Standard deviation of those sums, (G,)."""
        variance = self.cells.count * accuracy * (1 - accuracy)
        deviation: Array = np.sqrt(variance) / self.cells.num_samples
        return deviation

    def of_confidences(self, accuracy: Array) -> float:
        """Variance of the error because the confidences, too, vary over samples."""
        per_sample = np.abs(self.cells.confidence - accuracy) ** self.error.power
        weights = self.cells.count / self.cells.num_samples
        spread = weights @ per_sample**2 - (weights @ per_sample) ** 2
        return max(float(spread), 0.0) / self.cells.num_samples

    def rare(self, accuracy: Array) -> NDArray[np.intp]:
        """Cells with so few expected correct, or wrong, predictions that the count is not normal.

        Empty if cells are fine, with a few samples each: only sums of many such cells matter.
        """
        count = self.cells.count
        counts = (count >= _RARE) | (len(count) <= _FEW_CELLS)
        return np.flatnonzero(counts & (count * np.minimum(accuracy, 1 - accuracy) < _RARE))

    def mass(self, cells: NDArray[np.intp], accuracy: Array) -> Array:
        """Probabilities of 0, 1, ..., 45 rarer outcomes in some cells, (C, 46)."""
        share = np.minimum(accuracy, 1 - accuracy)[cells, None]
        k = np.arange(_MOST_RARE + 1.0)
        others = np.maximum(self.cells.count[cells, None] - k, 0)
        logs = self._log_choose[cells] + xlogy(k, share) + xlog1py(others, -share)
        return np.asarray(np.exp(logs))

    def gaps_of_rarer(self, cells: NDArray[np.intp], accuracy: Array, rarer: Array) -> Array:
        """Gaps of some cells, divided by N, for counts (C, ...) of their rarer outcome."""
        shape = (-1,) + (1,) * (rarer.ndim - 1)
        count, mean, often = (
            values[cells].reshape(shape)
            for values in (self.cells.count, self.cells.confidence, accuracy > 0.5)
        )
        rarer = np.minimum(rarer, count)
        positives = np.where(often, count - rarer, rarer)
        gaps: Array = (count * mean - positives) / self.cells.num_samples
        return gaps

    @cached_property
    def _log_choose(self) -> Array:
        n, k = self.cells.count[:, None], np.arange(_MOST_RARE + 1.0)
        ways = gammaln(n + 1) - gammaln(k + 1) - gammaln(np.maximum(n - k, 0) + 1)
        return np.where(k <= n, ways, -np.inf)


class SummedErrors(_Binomials):
    """Errors that are sums over cells: a convolution, computed by Fourier transforms."""

    def share_above(self, observed: float, direction: Array, size: float) -> float:
        """Probability that a sample shows more than `observed`."""
        accuracy = self.accuracy(direction, size)
        start, step, mass = self._distribution(accuracy, self.of_confidences(accuracy))
        ends = start + step * (np.arange(len(mass)) + 0.5)
        if observed < start - _NEVER:  # where no cell has noise, the grid has no width
            return 1.0
        return 1 - float(np.interp(observed, ends, mass.cumsum()))

    def quantile_without_gaps(self, share: float) -> float:
        """See ``Model``."""
        start, step, mass = self._distribution(np.clip(self.cells.confidence, 0, 1), 0.0)
        return start + step * float(np.interp(share, mass.cumsum(), np.arange(len(mass)) + 0.5))

    def _distribution(self, accuracy: Array, variance: float) -> tuple[float, float, Array]:
        """Start and step of a grid of errors, and the probability at each grid point."""
        values, weights = self._terms(accuracy)
        mean = (values * weights).sum(axis=1, keepdims=True)
        own = float(((values - mean) ** 2 * weights).sum())
        deviation = np.sqrt(variance + _SMOOTHING**2 * own)
        low = values.min(axis=1, keepdims=True)
        margin = 6 * deviation
        step = (float((values.max(axis=1) - low[:, 0]).sum()) + 2 * margin) / (_GRID - 2)
        step = max(step, _TINY)
        # Split each value between the two neighbouring grid points, which preserves the mean.
        place = (values - low) / step
        left = place.astype(np.intp)
        right_share = (place - left) * weights
        flat = (left + _GRID * np.arange(len(values))[:, None]).ravel()
        size = _GRID * len(values)
        spread = np.bincount(flat, (weights - right_share).ravel(), size)
        spread[1:] += np.bincount(flat, right_share.ravel(), size)[:-1]
        waves = rfft(spread.reshape(len(values), _GRID), axis=1).prod(axis=0)
        frequency = 2 * np.pi * np.arange(len(waves)) / _GRID
        shift = np.exp(-1j * frequency * (margin / step) - (frequency * deviation / step) ** 2 / 2)
        return float(low.sum() - margin), step, irfft(waves * shift, _GRID)

    def _terms(self, accuracy: Array) -> tuple[Array, Array]:
        """Possible contributions of cells to the error and their probabilities, (G, nodes) each."""
        assert self.error.terms is not None
        nodes = self.gaps(accuracy)[:, None] + self.noise(accuracy)[:, None] * _NODES
        weights = np.tile(_NODE_WEIGHTS, (len(nodes), 1))
        rare = self.rare(accuracy)
        if len(rare):
            k = np.arange(len(_NODES), dtype=np.float64)
            nodes[rare] = self.gaps_of_rarer(rare, accuracy, np.tile(k, (len(rare), 1)))
            weights[rare] = 0
            weights[rare, : _MOST_RARE + 1] = self.mass(rare, accuracy)
        values = self.error.terms(nodes.T).T
        # Values of negligible probability would only make the grid coarse.
        likeliest = np.take_along_axis(values, weights.argmax(axis=1)[:, None], axis=1)
        return np.where(weights > _NEVER, values, likeliest), weights


class Drawn(_Binomials):
    """Errors of drawn samples; subclasses draw them."""

    def share_above(self, observed: float, direction: Array, size: float) -> float:
        """Probability that a sample shows more than `observed`."""
        accuracy = self.accuracy(direction, size)
        drawn = self.error.statistic(self.draw(accuracy))
        variance = self.of_confidences(accuracy) + (_SMOOTHING * float(drawn.std())) ** 2
        return float(ndtr((drawn - observed) / (np.sqrt(variance) + _TINY)).mean())

    def quantile_without_gaps(self, share: float) -> float:
        """See ``Model``."""
        return float(np.quantile(self.error.statistic(self.draw_without_gaps()), share))

    def draw_without_gaps(self) -> Array:
        """Sums of (confidence - correct) per cell, divided by N, of a calibrated model, (R, G)."""
        return self.draw(np.clip(self.cells.confidence, 0, 1))

    def draw(self, accuracy: Array) -> Array:
        """The same for this accuracy (G,) of each cell."""
        raise NotImplementedError


class DrawnErrors(Drawn):
    """Errors of samples with binomial counts."""

    def __init__(
        self, cells: Cells, error: ErrorOfGaps, seed: int = 0, num_draws: int = _NUM_DRAWS
    ) -> None:
        super().__init__(cells, error)
        self.deviates = normal_deviates(num_draws, len(cells.count), seed)

    def draw(self, accuracy: Array) -> Array:
        """See :class:`Drawn`."""
        drawn = self.gaps(accuracy) + self.noise(accuracy) * self.deviates
        rare = self.rare(accuracy)
        if len(rare):
            # Counts by inversion of their distribution functions, (C, R).
            reached = self.mass(rare, accuracy).cumsum(axis=1)
            uniforms = ndtr(self.deviates[:, rare]).T
            pairs = zip(reached, uniforms, strict=True)
            counts = np.stack([np.searchsorted(*each, side="right") for each in pairs])
            drawn[:, rare] = self.gaps_of_rarer(rare, accuracy, counts.astype(np.float64)).T
        return drawn


@lru_cache(maxsize=16)
def normal_deviates(num_draws: int, num_cells: int, seed: int = 0) -> Array:
    """Normal deviates (draws, cells), always the same: an interval is a function of the data."""
    deviates = np.random.default_rng(seed).standard_normal((num_draws, num_cells))
    deviates.flags.writeable = False
    return deviates
