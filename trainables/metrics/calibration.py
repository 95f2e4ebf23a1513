"""Binned calibration errors and the data of a reliability diagram."""

from dataclasses import dataclass
from typing import get_args

import torch
from torch import Tensor

from trainables.metrics._inputs import check_count, check_probs
from trainables.metrics._ranked import (
    Binning,
    RankedScores,
    boundaries_of,
    equal_mass_boundaries,
    equal_width_boundaries,
    rank_classes,
    rank_top_label,
    top_label,
)
from trainables.plugins.arguments import check_choice


@dataclass(frozen=True)
class ReliabilityBins:
    """The data of a reliability diagram: float64 tensors of length B on the CPU.

    Attributes:
        lower: Lower edge of the bin (excluded, except 0 in the first bin).
        upper: Upper edge of the bin (included).
        count: Number of samples.
        confidence: Mean confidence; nan where the bin is empty.
        accuracy: Fraction of correct predictions; nan where the bin is empty.
    """

    lower: Tensor
    upper: Tensor
    count: Tensor
    confidence: Tensor
    accuracy: Tensor


def expected_calibration_error(probs: Tensor, labels: Tensor, num_bins: int = 15) -> float:
    """Expected calibration error (ECE) of the top label with equal-width bins, in [0, 1].

    ECE = sum_b n_b / N * |mean confidence_b - accuracy_b|. Bins are (lower, upper]; 0 is in the
    first. Empty bins contribute 0. Guo et al. 2017, eq. 3.
    """
    ranked = _ranked_top_label(probs, labels, num_bins)
    return float(binned_error(ranked, num_bins, "equal_width")[0])


def adaptive_calibration_error(probs: Tensor, labels: Tensor, num_bins: int = 15) -> float:
    """Expected calibration error of the top label with equal-mass bins, in [0, 1].

    Like `expected_calibration_error`, but the samples are sorted by confidence and split into
    `num_bins` parts of as equal size as possible. Nguyen & O'Connor 2015; called AdaECE in Mukhoti
    et al. 2020, whose code drops the least confident sample. Samples of equal confidence share a
    bin, so the order of the samples does not matter.
    """
    ranked = _ranked_top_label(probs, labels, num_bins)
    return float(binned_error(ranked, num_bins, "equal_mass")[0])


def classwise_calibration_error(
    probs: Tensor, labels: Tensor, num_bins: int = 15, binning: Binning = "equal_width"
) -> float:
    """Mean over the K classes of the binned calibration error of the class probability, in [0, 1].

    Also known as static calibration error (Nixon et al. 2019; Kull et al. 2019). `binning` is
    "equal_width" over [0, 1], or "equal_mass". The mean includes classes that are absent from
    `labels`. A probability of exactly 0 is in the first bin; some authors' code drops it.
    """
    check_choice("binning", binning, get_args(Binning))
    check_count("num_bins", num_bins)
    probs, labels = check_probs(probs, labels)
    errors = [binned_error(ranked, num_bins, binning) for ranked in rank_classes(probs, labels)]
    return float(torch.cat(errors).mean())


def event_calibration_error(probs: Tensor, labels: Tensor, num_bins: int = 15) -> float:
    """Binned calibration error of the probability of an event, one of two classes, in [0, 1].

    Bins have equal mass: they are quantiles of this probability. The error of the other class's
    probability is the same. ValueError with more than two classes.
    """
    probs, labels = check_probs(probs, labels)
    if probs.shape[1] != 2:
        raise ValueError(f"probs must have two classes, got {probs.shape[1]}")
    return classwise_calibration_error(probs, labels, num_bins, "equal_mass")


def maximum_calibration_error(probs: Tensor, labels: Tensor, num_bins: int = 15) -> float:
    """Maximum calibration error (MCE): largest |mean confidence - accuracy| of an equal-width bin.

    It uses the top label and ignores empty bins. Guo et al. 2017, eq. 5.
    """
    return float(maximum_gap(_ranked_top_label(probs, labels, num_bins), num_bins))


def reliability_bins(probs: Tensor, labels: Tensor, num_bins: int = 15) -> ReliabilityBins:
    """Count, mean confidence and accuracy per equal-width bin of the top label's confidence."""
    ranked = _ranked_top_label(probs, labels, num_bins)
    bins = ranked.bins(equal_width_boundaries(ranked, num_bins))
    edges = torch.linspace(0, 1, num_bins + 1, dtype=torch.float64)
    count = bins.count[0].cpu()
    return ReliabilityBins(
        lower=edges[:-1],
        upper=edges[1:],
        count=count,
        confidence=bins.score_sum[0].cpu() / count,
        accuracy=bins.positive_sum[0].cpu() / count,
    )


def binned_error(ranked: RankedScores, num_bins: int, binning: Binning) -> Tensor:
    """Binned calibration error per column of `ranked`, shape (C,)."""
    gaps = ranked.bins(boundaries_of(ranked, num_bins, binning)).gap_sum()
    return gaps.sum(dim=1) / ranked.scores.shape[1]


def maximum_gap(ranked: RankedScores, num_bins: int) -> Tensor:
    """Largest gap of a non-empty equal-width bin in the first column, a scalar."""
    bins = ranked.bins(equal_width_boundaries(ranked, num_bins))
    return (bins.gap_sum() / bins.count.clamp(min=1)).amax()


def _ranked_top_label(probs: Tensor, labels: Tensor, num_bins: int) -> RankedScores:
    check_count("num_bins", num_bins)
    return rank_top_label(*top_label(*check_probs(probs, labels)))


def debiased_calibration_error(probs: Tensor, labels: Tensor, num_bins: int = 15) -> float:
    """Debiased L2 calibration error of the top label with equal-mass bins, in [0, 1].

    sqrt(max(0, sum_b n_b / N * [(mean confidence_b - acc_b)^2 - acc_b (1 - acc_b) / (n_b - 1)])):
    the plug-in estimate minus the variance of the accuracy of each bin. Bins with fewer than two
    samples contribute 0. Kumar, Liang & Ma 2019, definition 5.1. Note that an L2 error is at least
    as large as the L1 error.
    """
    return float(debiased_error(_ranked_top_label(probs, labels, num_bins), num_bins))


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
    return bool((steps >= -1e-12).all())


def _sweep_boundaries(ranked: RankedScores, num_bins: int) -> Tensor:
    """Positions where floor(i * B / N) increases: the equal-mass bins of the authors' code."""
    num_samples = ranked.scores.shape[1]
    bins = torch.arange(num_bins + 1, device=ranked.scores.device)
    return ((bins * num_samples + num_bins - 1) // num_bins)[None]
