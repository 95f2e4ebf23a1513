"""Smooth calibration error (smECE), Błasiok & Nakkiran 2023."""

import math
from bisect import bisect_left
from functools import cache, lru_cache

import torch
from torch import Tensor
from torch.nn.functional import interpolate, pad

from trainables.metrics._inputs import check_probs
from trainables.metrics._ranked import top_label

_SMALLEST_SIGMA = 1e-3
_WIDTHS = 1024
_MIN_KERNEL_POINTS = 2000
_MIN_EVALUATION_POINTS = 200
_DENSITY_OFFSET = 1e-4


def smooth_calibration_error(probs: Tensor, labels: Tensor) -> float:
    """Smooth calibration error (smECE) of the top label, without bins or a width to choose.

    The residuals (confidence - correct) are smoothed over confidence by a Gaussian that is
    reflected at 0 and 1, so every sample keeps its full weight. The error is the integral of the
    absolute value of the result. The width sigma is the smallest multiple of 1/1024 that exceeds
    the error computed with it. Błasiok & Nakkiran 2023, definitions 8 and 9.

    The grids are those of the authors' `relplot.smECE`. The values agree up to rounding, unless a
    confidence lies within 1/2000 of 0 or 1. There, relplot deviates from the paper: it counts
    samples at an end only once although they are their own reflection, so confidence 1 has half the
    weight, and a cap at 0.998 changes the value by a third for saturated networks. Here they have
    full weight. The remaining grid error is up to 4% of the value if most of the mass lies within
    sigma of an end, and below 1% otherwise.
    """
    return smooth_error(*top_label(*check_probs(probs, labels)))


def smooth_error(confidence: Tensor, correct: Tensor) -> float:
    """The smooth calibration error of confidences (N,) and correctness (N,)."""
    confidence = confidence.double()
    residual = confidence - correct.double()
    weights = torch.stack([residual, torch.ones_like(residual)])

    @cache
    def spectrum(size: int) -> Tensor:
        return _reflected_spectrum(_round_to_grid(confidence, weights, size))

    @cache
    def error_at(step: int) -> float:
        sigma = step / _WIDTHS
        size = max(_MIN_KERNEL_POINTS, round(20 / sigma)) // 2 + 1
        start = size - 1 + size // 2
        product = spectrum(size) * _kernel_spectrum(size, sigma, confidence.device)
        smoothed = torch.fft.irfft(product, _length(size))[:, start : start + size]
        points = max(round(10 / sigma), _MIN_EVALUATION_POINTS)
        error, density = interpolate(smoothed[None], points, mode="linear", align_corners=True)[0]
        return float(error.abs().sum() / (density + _DENSITY_OFFSET).sum())

    def is_wide_enough(step: int) -> bool:
        sigma = step / _WIDTHS
        return sigma >= _SMALLEST_SIGMA and sigma >= error_at(step)

    return error_at(1 + bisect_left(range(1, _WIDTHS), True, key=is_wide_enough))


def _round_to_grid(position: Tensor, weights: Tensor, size: int) -> Tensor:
    """Split each weight (2, N) between its two neighbours on a grid over [0, 1], (2, size)."""
    scaled = position * (size - 1)
    left = scaled.long().clamp_(0, size - 2)
    fraction = scaled - left
    grid = weights.new_zeros(len(weights), size)
    grid.index_add_(1, left, weights * (1 - fraction))
    grid.index_add_(1, left + 1, weights * fraction)
    grid[:, [0, -1]] *= 2  # an end is its own mirror image, and the reflection omits it
    return grid


def _reflected_spectrum(values: Tensor) -> Tensor:
    """The Fourier transform of rows on a grid (2, size), with values reflected at both ends."""
    size = values.shape[1]
    extended = pad(values[None], (size - 1, size - 1), mode="reflect")[0]
    spectrum: Tensor = torch.fft.rfft(extended, _length(size))
    return spectrum


@lru_cache(maxsize=64)  # all searches for a width begin with the same ones
def _kernel_spectrum(size: int, sigma: float, device: torch.device) -> Tensor:
    """The Fourier transform of a Gaussian of width `sigma` on a grid over [0, 1]."""
    offset = torch.linspace(0, 1, size, dtype=torch.float64, device=device) - 0.5
    kernel = torch.exp(-(offset**2) / (2 * sigma**2)) / (math.sqrt(2 * math.pi) * sigma)
    spectrum: Tensor = torch.fft.rfft(kernel, _length(size))
    return spectrum


def _length(size: int) -> int:
    """Of the transforms of a reflected grid: a circular wrap stays outside the slice."""
    return 1 << (3 * size - 3).bit_length()
