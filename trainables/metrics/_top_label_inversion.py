"""Intervals of the calibration errors of the top label: what each makes of gaps in cells."""

import numpy as np
from numpy.typing import NDArray
from scipy.fft import dct, idct
from scipy.special import gammaln, logsumexp
from torch import Tensor

from trainables.metrics._inversion import Array, Cells, ErrorOfGaps, invert_cells
from trainables.metrics._ranked import RankedScores
from trainables.metrics.kernel_density import BANDWIDTHS

Ends = tuple[float, float]

_NUM_GROUPS = 15
_FINEST_CELLS = 2048
_MAX_CELLS, _MIN_CELLS = 1024, 64
_CELLS_PER_WIDTH = 4
_LEAST_WIDTH = 1e-3
_BISECTION_STEPS = 20
_MAX_KERNEL_CELLS = 256
_TINY = 1e-300


def binned_interval(ranked: RankedScores, boundaries: Tensor, level: float) -> Ends:
    """Interval of the binned L1 error of the first column of `ranked`."""
    cells = _cells_of_bins(ranked, boundaries)
    error = ErrorOfGaps(
        statistic=lambda gaps: np.abs(gaps).sum(axis=1),
        population=lambda gaps: float(np.abs(gaps).sum()),
    )
    return invert_cells(cells, error, float(np.abs(cells.gaps).sum()), level)


def debiased_interval(ranked: RankedScores, boundaries: Tensor, level: float) -> Ends:
    """Interval of the binned L2 error; the statistic is its debiased square, also below 0."""
    cells = _cells_of_bins(ranked, boundaries)
    share = cells.count / cells.num_samples

    def debiased_square(gaps: Array) -> Array:
        gap = gaps / share
        accuracy = np.clip(cells.confidence - gap, 0, 1)
        noise = accuracy * (1 - accuracy) / np.maximum(cells.count - 1, 1)
        square: Array = np.where(cells.count > 1, gap**2 - noise, 0) @ share
        return square

    error = ErrorOfGaps(
        statistic=debiased_square,
        population=lambda gaps: float(np.sqrt((gaps**2 / share).sum())),
        power=2,
    )
    return invert_cells(cells, error, float(debiased_square(cells.gaps[None])[0]), level)


def smooth_interval(confidence: Array, correct: Array, level: float) -> Ends:
    """Interval of the smooth error.

    Whether the error of another sample exceeds the observed one can be told at the observed width,
    as the error at a width falls with the width.
    """
    cells, position = _even_cells(confidence, correct, _FINEST_CELLS)
    width = max(_fixed_width(cells.gaps, position, _FINEST_CELLS), _LEAST_WIDTH)
    wanted = 2 ** int(np.ceil(np.log2(_CELLS_PER_WIDTH / width)))
    size = int(np.clip(wanted, _MIN_CELLS, _MAX_CELLS))
    cells, position = _even_cells(confidence, correct, size)
    error = ErrorOfGaps(
        statistic=lambda gaps: _smoothed_size(gaps, position, size, width),
        population=lambda gaps: _fixed_width(gaps, position, size),
    )
    return invert_cells(cells, error, float(error.statistic(cells.gaps[None])[0]), level)


def kernel_interval(confidence: Array, correct: Array, level: float) -> Ends:
    """Interval of the mean of |confidence - accuracy given the confidence|.

    The statistic is the kernel estimate of the top label on at most 256 cells of equal mass.
    """
    cells = _equal_mass_cells(confidence, correct)
    count, num_samples = cells.count, cells.num_samples
    kernel = _most_likely_kernel(cells)
    kernel -= np.diag(np.diag(kernel) / count)  # leave one out
    kernel /= np.maximum(count @ kernel, _TINY)

    def size(gaps: Array) -> Array:
        positives = count * cells.confidence - gaps * num_samples
        error: Array = np.abs(positives @ kernel - cells.confidence) @ count / num_samples
        return error

    error = ErrorOfGaps(statistic=size, population=lambda gaps: float(np.abs(gaps).sum()))
    return invert_cells(cells, error, float(size(cells.gaps[None])[0]), level)


def _cells_of_bins(ranked: RankedScores, boundaries: Tensor) -> Cells:
    bins = ranked.bins(boundaries)
    count, score_sum, positives = (
        sums[0].cpu().numpy() for sums in (bins.count, bins.score_sum, bins.positive_sum)
    )
    filled = count > 0
    count = count[filled]
    return Cells(count, score_sum[filled] / count, positives[filled], np.arange(len(count)))


def _even_cells(confidence: Array, correct: Array, size: int) -> tuple[Cells, NDArray[np.intp]]:
    """Cells of equal width over [0, 1], and which of the `size` cells are not empty."""
    cell = np.minimum((confidence * size).astype(np.intp), size - 1)
    count = np.bincount(cell, minlength=size).astype(np.float64)
    filled = np.flatnonzero(count)
    count = count[filled]
    mean = np.bincount(cell, confidence, size)[filled] / count
    positives = np.bincount(cell, correct, size)[filled].astype(np.float64)
    middle = (count.cumsum() - count / 2) / count.sum()
    return Cells(count, mean, positives, (middle * _NUM_GROUPS).astype(np.int64)), filled


def _equal_mass_cells(confidence: Array, correct: Array) -> Cells:
    num_samples = len(confidence)
    size = min(num_samples, _MAX_KERNEL_CELLS)
    order = np.argsort(confidence, kind="stable")
    cell = np.arange(num_samples) * size // num_samples
    count = np.bincount(cell, minlength=size).astype(np.float64)
    mean = np.bincount(cell, confidence[order], size) / count
    positives = np.bincount(cell, correct[order], size).astype(np.float64)
    return Cells(count, mean, positives, np.arange(size) * _NUM_GROUPS // size)


def _smoothed_size(gaps: Array, position: NDArray[np.intp], size: int, width: float) -> Array:
    """Integral of the absolute value of gaps (..., G) smoothed by a reflected Gaussian.

    Cells at the middles of even intervals reflect as the cosines of a DCT do.
    """
    spread = np.zeros((*gaps.shape[:-1], size), dtype=np.float32)  # for speed
    spread[..., position] = gaps
    damping = np.exp(-((width * np.pi * np.arange(size)) ** 2) / 2).astype(np.float32)
    error: Array = np.abs(idct(dct(spread, axis=-1) * damping, axis=-1)).sum(axis=-1)
    return error.astype(np.float64)


def _fixed_width(gaps: Array, position: NDArray[np.intp], size: int) -> float:
    """The width that equals the error of gaps (G,) found with it."""
    low, high = _LEAST_WIDTH, 1.0
    if (least := float(_smoothed_size(gaps, position, size, low))) <= low:
        return least
    for _ in range(_BISECTION_STEPS):
        middle = np.sqrt(low * high)
        if _smoothed_size(gaps, position, size, middle) > middle:
            low = middle
        else:
            high = middle
    return float(high)


def _most_likely_kernel(cells: Cells) -> Array:
    """Kernel of each cell (first axis) at each cell, up to a factor per column."""
    count, mean = cells.count, cells.confidence
    tiny = np.finfo(np.float64).tiny
    products = np.outer(mean, np.log(np.maximum(mean, tiny)))
    products += np.outer(1 - mean, np.log(np.maximum(1 - mean, tiny)))
    others = np.log(np.repeat(count[:, None], len(count), axis=1))
    np.fill_diagonal(others, np.log(np.maximum(count - 1, tiny)))

    def log_kernel(bandwidth: float) -> Array:
        log_beta = gammaln(mean / bandwidth + 1) + gammaln((1 - mean) / bandwidth + 1)
        log_beta -= gammaln(1 / bandwidth + 2)
        kernel: Array = products / bandwidth - log_beta[:, None]
        return kernel

    def log_likelihood(bandwidth: float) -> float:
        return float(count @ logsumexp(log_kernel(bandwidth) + others, axis=0))

    best = log_kernel(max(BANDWIDTHS, key=log_likelihood))
    kernel: Array = np.exp(best - best.max(axis=0))
    return kernel
