"""Calibration errors that correct the bias of binned estimates on few samples."""

import torch
from torch import Tensor

from trainables.metrics._inputs import check_count, check_probs
from trainables.metrics._ranked import RankedScores, equal_mass_boundaries, rank_top_label
from trainables.metrics._top_label import top_label

_ROUNDING = 1e-12


def debiased_calibration_error(probs: Tensor, labels: Tensor, num_bins: int = 15) -> float:
    """Debiased L2 calibration error of the top label with equal-mass bins, in [0, 1].

    sqrt(max(0, sum_b n_b / N * [(mean confidence_b - acc_b)^2 - acc_b (1 - acc_b) / (n_b - 1)])):
    the plug-in estimate minus the variance of the accuracy of each bin. Bins with fewer than two
    samples contribute 0. Kumar, Liang & Ma 2019, definition 5.1. Note that an L2 error is at least
    as large as the L1 error.
    """
    check_count("num_bins", num_bins)
    return float(debiased_error(rank_top_label(*top_label(*check_probs(probs, labels))), num_bins))


def sweep_calibration_error(probs: Tensor, labels: Tensor) -> float:
    """ECE-sweep: L1 calibration error of the top label with as many bins as stay monotonic.

    The number of equal-mass bins grows from 2 as long as the accuracy does not decrease from one
    bin to the next. The error uses the last such number, or 1 if there is none. Roelofs et al.
    2022, algorithm 1; their code uses the L2 norm by default.
    """
    ranked = rank_top_label(*top_label(*check_probs(probs, labels)))
    num_samples = ranked.scores.shape[1]
    num_bins = 1
    while num_bins + 1 < num_samples and _is_monotonic(ranked, num_bins + 1):
        num_bins += 1
    gaps = ranked.bins(_sweep_boundaries(ranked, num_bins)).gap_sum()
    return float(gaps.sum() / num_samples)


def debiased_error(ranked: RankedScores, num_bins: int) -> Tensor:
    """Debiased error (Kumar et al. 2019) of the first column of `ranked`, a scalar."""
    bins = ranked.bins(equal_mass_boundaries(ranked, num_bins))
    count = bins.count.clamp(min=2)
    accuracy = bins.positive_sum / count
    excess = (bins.gap_sum() / count) ** 2 - accuracy * (1 - accuracy) / (count - 1)
    weight = torch.where(bins.count < 2, 0, bins.count) / ranked.scores.shape[1]
    return (weight * excess).sum().clamp(min=0).sqrt()


def _is_monotonic(ranked: RankedScores, num_bins: int) -> bool:
    bins = ranked.bins(_sweep_boundaries(ranked, num_bins))
    steps = (bins.positive_sum / bins.count).diff()
    return bool((steps >= -_ROUNDING).all())


def _sweep_boundaries(ranked: RankedScores, num_bins: int) -> Tensor:
    """Positions where floor(i * B / N) increases: the equal-mass bins of the authors' code."""
    num_samples = ranked.scores.shape[1]
    bins = torch.arange(num_bins + 1, device=ranked.scores.device)
    return ((bins * num_samples + num_bins - 1) // num_bins)[None]
