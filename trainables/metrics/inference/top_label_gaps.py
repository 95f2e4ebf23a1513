"""Top-label calibration errors as functions of the gaps in cells."""

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.fft import dct, idct
from torch import Tensor

from trainables.metrics._beta_kernel import (
    equal_mass_cells,
    log_kernel,
    log_of,
    most_likely_bandwidth,
    pairs,
    relative,
)
from trainables.metrics._ranked import RankedScores
from trainables.metrics.inference.inversion import Array, Cells, ErrorOfGaps

_NUM_GROUPS = 15
_FINEST_CELLS = 2048
_MAX_CELLS, _MIN_CELLS = 1024, 64
_CELLS_PER_WIDTH = 2
_LEAST_WIDTH = 1e-3
_BISECTION_STEPS = 20
_MAX_KERNEL_CELLS = 128
_TINY = 1e-300


Problem = tuple[Cells, ErrorOfGaps]


def binned_error_of_gaps(ranked: RankedScores, boundaries: Tensor) -> Problem:
    """The binned L1 error of the first column of `ranked`."""
    return cells_of_bins(ranked, boundaries), ErrorOfGaps.of_sum(np.abs)


def debiased_error_of_gaps(ranked: RankedScores, boundaries: Tensor) -> Problem:
    """The binned L2 error; the statistic is its debiased square, which may be negative."""
    cells = cells_of_bins(ranked, boundaries)
    share = cells.count / cells.num_samples

    def debiased_squares(gaps: Array) -> Array:
        gap = gaps / share
        accuracy = np.clip(cells.confidence - gap, 0, 1)
        noise = accuracy * (1 - accuracy) / np.maximum(cells.count - 1, 1)
        squares: Array = np.where(cells.count > 1, gap**2 - noise, 0) * share
        return squares

    return cells, ErrorOfGaps(
        statistic=lambda gaps: debiased_squares(gaps).sum(axis=1),
        population=lambda gaps: float(np.sqrt((gaps**2 / share).sum())),
        power=2,
        terms=debiased_squares,
    )


def smooth_error_of_gaps(confidence: Array, correct: Array) -> Problem:
    """The smooth error, at the kernel width of the observed sample.

    This width suffices to tell whether the error of another sample exceeds the observed one,
    because the error decreases with the width.
    """
    cells, position = even_cells(confidence, correct, _FINEST_CELLS)
    width = max(float(fixed_widths(cells.gaps, position, _FINEST_CELLS)), _LEAST_WIDTH)
    wanted = 2 ** int(np.ceil(np.log2(_CELLS_PER_WIDTH / width)))
    size = int(np.clip(wanted, _MIN_CELLS, _MAX_CELLS))
    cells, position = even_cells(confidence, correct, size)

    def population(gaps: Array) -> float:
        return float(fixed_widths(gaps, position, size))

    return cells, ErrorOfGaps(
        statistic=lambda gaps: _smoothed_size(_waves(gaps, position, size), width),
        population=population,
        least=population,
    )


def kernel_error_of_gaps(confidence: Tensor, correct: Tensor) -> Problem:
    """The mean of |confidence - accuracy given the confidence|.

    The statistic is the top-label kernel estimate on at most 128 equal-mass cells.
    """
    bandwidth = most_likely_bandwidth(confidence)
    parts = equal_mass_cells(confidence, correct, _MAX_KERNEL_CELLS)
    count, confidences, positives = (part.cpu().numpy() for part in parts)
    group = np.arange(len(count)) * min(_NUM_GROUPS, len(count)) // len(count)
    cells = Cells(count, confidences, positives, group)
    num_samples, centres = cells.num_samples, pairs(torch.from_numpy(cells.confidence))
    kernel: Array = relative(log_kernel(centres, log_of(centres), bandwidth)).numpy()
    kernel -= np.diag(np.diag(kernel) / count)  # leave one out
    kernel /= np.maximum(count @ kernel, _TINY)

    def size(gaps: Array) -> Array:
        positives = count * cells.confidence - gaps * num_samples
        error: Array = np.abs(positives @ kernel - cells.confidence) @ count / num_samples
        return error

    return cells, ErrorOfGaps(
        statistic=size,
        population=lambda gaps: float(np.abs(gaps).sum()),
        least=lambda gaps: abs(float(gaps.sum())),
        tail_share=0.5,  # it misses more often than the others, see docs/intervals.md
    )


def arrays_of(confidence: Tensor, correct: Tensor) -> tuple[Array, Array]:
    """Both as float64 arrays (N,)."""
    return confidence.double().cpu().numpy(), correct.double().cpu().numpy()


def cells_of_bins(ranked: RankedScores, boundaries: Tensor) -> Cells:
    """The non-empty bins of the first column of `ranked`."""
    bins = ranked.bins(boundaries)
    count, score_sum, positives = (
        sums[0].cpu().numpy() for sums in (bins.count, bins.score_sum, bins.positive_sum)
    )
    filled = count > 0
    count = count[filled]
    return Cells(count, score_sum[filled] / count, positives[filled], np.arange(len(count)))


def even_cells(confidence: Array, correct: Array, size: int) -> tuple[Cells, NDArray[np.intp]]:
    """Non-empty cells of equal width over [0, 1], and their positions among all `size` cells."""
    cell = np.minimum((confidence * size).astype(np.intp), size - 1)
    count = np.bincount(cell, minlength=size).astype(np.float64)
    filled = np.flatnonzero(count)
    count = count[filled]
    mean = np.bincount(cell, confidence, size)[filled] / count
    positives = np.bincount(cell, correct, size)[filled].astype(np.float64)
    middle = (count.cumsum() - count / 2) / count.sum()
    return Cells(count, mean, positives, (middle * _NUM_GROUPS).astype(np.int64)), filled


def _waves(gaps: Array, position: NDArray[np.intp], size: int) -> NDArray[np.float32]:
    """Discrete cosine transform of gaps (..., G), which implies reflection at 0 and 1."""
    spread = np.zeros((*gaps.shape[:-1], size), dtype=np.float32)  # for speed
    spread[..., position] = gaps
    waves: NDArray[np.float32] = dct(spread, axis=-1)
    return waves


def _smoothed_size(waves: NDArray[np.float32], width: float | Array) -> Array:
    """Integral of |gaps smoothed by a reflected Gaussian|, for one width or one width per row."""
    frequencies = np.pi * np.arange(waves.shape[-1])
    exponents = (np.asarray(width)[..., None] * frequencies) ** 2 / 2
    damped = idct(waves * np.exp(-exponents).astype(np.float32), axis=-1)
    size: Array = np.abs(damped).sum(axis=-1).astype(np.float64)
    return size


def fixed_widths(gaps: Array, position: NDArray[np.intp], size: int) -> Array:
    """The kernel widths at which the error of gaps (..., G) equals the width."""
    waves = _waves(gaps, position, size)
    least = _smoothed_size(waves, _LEAST_WIDTH)
    low, high = np.full(least.shape, _LEAST_WIDTH), np.ones(least.shape)
    for _ in range(_BISECTION_STEPS):
        middle = np.sqrt(low * high)
        larger = _smoothed_size(waves, middle) > middle
        low, high = np.where(larger, middle, low), np.where(larger, high, middle)
    return np.where(least <= _LEAST_WIDTH, least, high)
