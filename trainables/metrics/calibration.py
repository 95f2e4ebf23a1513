"""Binned calibration errors and the data of a reliability diagram."""

from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

from trainables.metrics._inputs import check_count, check_probs
from trainables.metrics._ranked import (
    Bins,
    RankedScores,
    equal_mass_boundaries,
    equal_width_boundaries,
    rank_classes,
    rank_top_label,
)
from trainables.metrics._top_label import top_label
from trainables.plugins.arguments import check_choice

Binning = Literal["equal_width", "equal_mass"]


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


def maximum_calibration_error(probs: Tensor, labels: Tensor, num_bins: int = 15) -> float:
    """Maximum calibration error (MCE): largest |mean confidence - accuracy| of an equal-width bin.

    It uses the top label and ignores empty bins. Guo et al. 2017, eq. 5.
    """
    return float(maximum_gap(_ranked_top_label(probs, labels, num_bins), num_bins))


def reliability_bins(probs: Tensor, labels: Tensor, num_bins: int = 15) -> ReliabilityBins:
    """Count, mean confidence and accuracy per equal-width bin of the top label's confidence."""
    bins = _equal_width_bins(_ranked_top_label(probs, labels, num_bins), num_bins)
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
    place = equal_width_boundaries if binning == "equal_width" else equal_mass_boundaries
    gaps = ranked.bins(place(ranked, num_bins)).gap_sum()
    return gaps.sum(dim=1) / ranked.scores.shape[1]


def maximum_gap(ranked: RankedScores, num_bins: int) -> Tensor:
    """Largest gap of a non-empty equal-width bin in the first column, a scalar."""
    bins = _equal_width_bins(ranked, num_bins)
    return (bins.gap_sum() / bins.count.clamp(min=1)).amax()


def _equal_width_bins(ranked: RankedScores, num_bins: int) -> Bins:
    return ranked.bins(equal_width_boundaries(ranked, num_bins))


def _ranked_top_label(probs: Tensor, labels: Tensor, num_bins: int) -> RankedScores:
    check_count("num_bins", num_bins)
    return rank_top_label(*top_label(*check_probs(probs, labels)))
