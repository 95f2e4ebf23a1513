"""Errors that samples of cells would show, for `_inversion`: how likely each is.

The number of right predictions of a cell is binomial, taken as normal where many are expected.
Where the error is a sum over cells its distribution is their convolution; else it is drawn.
"""

from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.fft import irfft, rfft
from scipy.special import gammaln, ndtr, ndtri, xlog1py, xlogy

from trainables.metrics._inversion import Array, Cells, ErrorOfGaps, Model, fit_curve, invert

_NUM_DRAWS = 1024
_GRID = 1024
_NODES = np.linspace(-5, 5, 101)
_NODE_WEIGHTS = np.diff(ndtr(np.concatenate([[-np.inf], _NODES[1:] - 0.05, [np.inf]])))
_SMOOTHING = 0.1  # of the errors' deviation: makes their distribution function continuous
_RARE = 10  # expected number of a cell's right, or wrong, predictions
_MOST_RARE = 45  # of a mean of 10, more come in one of 1e13 cases
_FEW_CELLS = 64
_NEVER = 1e-9
_TINY = 1e-300


def invert_cells(cells: Cells, error: ErrorOfGaps, level: float) -> tuple[float, float]:
    """Both ends of the interval of an error of cells.

    Args:
        cells: The samples.
        error: What is made of the gaps.
        level: Level of the interval, in (0, 1).
    """
    # Along the second line every error below the mean confidence is reached.
    observed = float(error.statistic(cells.gaps[None])[0])
    directions = fit_curve(cells) - cells.confidence, -cells.confidence
    low, high = invert(sampled_errors(cells, error), observed, level, directions)
    if error.fine and low > 0:
        # Noise makes an error larger on average: no less than value + z standard errors.
        right, sure, count = cells.positives, cells.confidence, cells.num_samples
        squares = float((right * (1 - sure) ** 2 + (cells.count - right) * sure**2).sum()) / count
        deviation = np.sqrt((squares - float(cells.gaps.sum()) ** 2) / count)
        value = error.population(cells.gaps)
        high = max(high, value + float(ndtri((1 + level) / 2)) * deviation)
    return low, high


def sampled_errors(cells: Cells, error: ErrorOfGaps) -> Model:
    """What samples would show, by the fastest way there is."""
    return DrawnErrors(cells, error) if error.terms is None else SummedErrors(cells, error)


class _Binomials:
    """Numbers of right predictions in cells, for gaps along a direction."""

    def __init__(self, cells: Cells, error: ErrorOfGaps) -> None:
        self.cells, self.error = cells, error

    def population(self, direction: Array, size: float) -> float:
        return self.error.population(self.gaps(self.accuracy(direction, size)))

    def gaps(self, accuracy: Array) -> Array:
        """Expected sums of (confidence - correct) per cell, over N, (G,)."""
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
        """Variance of the error as other samples hold other confidences too."""
        per_sample = np.abs(self.cells.confidence - accuracy) ** self.error.power
        weights = self.cells.count / self.cells.num_samples
        spread = weights @ per_sample**2 - (weights @ per_sample) ** 2
        return max(float(spread), 0.0) / self.cells.num_samples

    def rare(self, accuracy: Array) -> NDArray[np.intp]:
        """Cells in which so few are expected to be right, or wrong, that the number is not normal.

        Fine cells of a few samples each are left out: what counts there are sums of cells.
        """
        count = self.cells.count
        counts = (count >= _RARE) | (len(count) <= _FEW_CELLS)
        return np.flatnonzero(counts & (count * np.minimum(accuracy, 1 - accuracy) < _RARE))

    def mass(self, cells: NDArray[np.intp], accuracy: Array) -> Array:
        """Probabilities of 0, 1, ... of the rarer outcome in some cells, (C, 46)."""
        share = np.minimum(accuracy, 1 - accuracy)[cells, None]
        k = np.arange(_MOST_RARE + 1.0)
        others = np.maximum(self.cells.count[cells, None] - k, 0)
        logs = self._log_choose[cells] + xlogy(k, share) + xlog1py(others, -share)
        return np.asarray(np.exp(logs))

    def gaps_of_rarer(self, cells: NDArray[np.intp], accuracy: Array, rarer: Array) -> Array:
        """Sums over N of some cells with numbers (C, ...) of their rarer outcome."""
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
    """Errors that are sums over cells: their distribution is a product of Fourier transforms."""

    def share_above(self, observed: float, direction: Array, size: float) -> float:
        """Probability that a sample shows more than `observed`."""
        accuracy = self.accuracy(direction, size)
        start, step, mass = self._distribution(accuracy, self.of_confidences(accuracy))
        ends = start + step * (np.arange(len(mass)) + 0.5)
        return 1 - float(np.interp(observed, ends, mass.cumsum()))

    def quantile_without_gaps(self, share: float) -> float:
        start, step, mass = self._distribution(np.clip(self.cells.confidence, 0, 1), 0.0)
        return start + step * float(np.interp(share, mass.cumsum(), np.arange(len(mass)) + 0.5))

    def _distribution(self, accuracy: Array, variance: float) -> tuple[float, float, Array]:
        """Where a grid starts, its steps, and the probabilities of errors around its points."""
        values, weights = self._terms(accuracy)
        mean = (values * weights).sum(axis=1, keepdims=True)
        own = float(((values - mean) ** 2 * weights).sum())
        deviation = np.sqrt(variance + _SMOOTHING**2 * own)
        low = values.min(axis=1, keepdims=True)
        margin = 6 * deviation
        step = (float((values.max(axis=1) - low[:, 0]).sum()) + 2 * margin) / (_GRID - 2)
        step = max(step, _TINY)
        # Each value is shared by the two grid points beside it, which keeps its mean.
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
        """What cells add to the error, (G, nodes), and how likely, (G, nodes)."""
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
        # What never happens would only make the grid coarse.
        likeliest = np.take_along_axis(values, weights.argmax(axis=1)[:, None], axis=1)
        return np.where(weights > _NEVER, values, likeliest), weights


class DrawnErrors(_Binomials):
    """Errors of drawn samples."""

    def __init__(
        self, cells: Cells, error: ErrorOfGaps, seed: int = 0, num_draws: int = _NUM_DRAWS
    ) -> None:
        super().__init__(cells, error)
        self.deviates, self.uniforms, self.rank = _deviates(num_draws, len(cells.count), seed)

    def share_above(self, observed: float, direction: Array, size: float) -> float:
        """Probability that a sample shows more than `observed`."""
        accuracy = self.accuracy(direction, size)
        drawn = self.error.statistic(self._draw(accuracy))
        variance = self.of_confidences(accuracy) + (_SMOOTHING * float(drawn.std())) ** 2
        return float(ndtr((drawn - observed) / (np.sqrt(variance) + _TINY)).mean())

    def quantile_without_gaps(self, share: float) -> float:
        return float(np.quantile(self.error.statistic(self.draw_without_gaps()), share))

    def draw_without_gaps(self) -> Array:
        """Sums of (confidence - correct) per cell, over N, of calibrated samples, (R, G)."""
        return self._draw(np.clip(self.cells.confidence, 0, 1))

    def _draw(self, accuracy: Array) -> Array:
        drawn = self.gaps(accuracy) + self.noise(accuracy) * self.deviates
        rare = self.rare(accuracy)
        if len(rare):
            numbers = self._quantiles(rare, self.mass(rare, accuracy))
            drawn[:, rare] = self.gaps_of_rarer(rare, accuracy, numbers).T
        return drawn

    def _quantiles(self, cells: NDArray[np.intp], mass: Array) -> Array:
        """Quantiles (C, R) of numbers of these probabilities, at the cells' uniform deviates.

        The quantile of a deviate is how many steps lie below it: of all cells in one search.
        """
        reached = mass.cumsum(axis=1)
        ascending, place = self.uniforms[cells], np.arange(len(cells))[:, None]
        below = np.searchsorted((ascending + place).ravel(), (reached + place).ravel())
        width = ascending.shape[1] + 1
        flat = (below.reshape(reached.shape) + place).ravel()
        steps = np.bincount(flat, minlength=width * len(cells)).reshape(len(cells), width)
        quantiles = steps[:, :-1].cumsum(axis=1)
        return np.take_along_axis(quantiles, self.rank[cells], axis=1).astype(np.float64)


@lru_cache(maxsize=16)
def _deviates(num_draws: int, num_cells: int, seed: int) -> tuple[Array, Array, NDArray[np.intp]]:
    """Normal deviates (draws, cells); of each cell the uniform ones, ascending; which is which.

    The same for every call, so that an interval is a function of the data.
    """
    deviates = np.random.default_rng(seed).standard_normal((num_draws, num_cells))
    uniforms = ndtr(deviates).T
    order = uniforms.argsort(axis=1)
    ascending, rank = np.take_along_axis(uniforms, order, axis=1), order.argsort(axis=1)
    for shared in (deviates, ascending, rank):
        shared.flags.writeable = False
    return deviates, ascending, rank
