"""Class-wise calibration error of more than two classes: confidence interval and reference value.

The error is the mean over classes of Σ |gap| over cells, the bins of a class. A gap is the sum of
(probability - membership) over the samples of a cell, divided by N.
"""

import math
from dataclasses import dataclass
from typing import Final

import torch
from scipy.special import ndtri
from torch import Tensor

from trainables.metrics._inputs import row_blocks
from trainables.metrics._ranked import equal_mass_boundaries, equal_width_boundaries, rank_classes
from trainables.metrics.calibration import Binning

_TINY: Final = 1e-300


@dataclass(frozen=True)
class ClassCells:
    """Bins of every class, including empty ones, (K, B) each, float64.

    Attributes:
        count: Number of samples.
        expected: Sum of the probabilities of the class.
        members: Number of samples whose label is the class.
        end: Largest probability; for an empty bin, that of the previous bin.
    """

    count: Tensor
    expected: Tensor
    members: Tensor
    end: Tensor

    @property
    def gaps(self) -> Tensor:
        """Expected minus observed number of members, (K, B)."""
        return self.expected - self.members

    def variance(self, probs: Tensor) -> Tensor:
        """Variance of `members` if the probabilities (N, K) are calibrated, (K, B)."""
        total = torch.zeros(self.count.numel(), dtype=torch.float64, device=probs.device)
        for (p,) in row_blocks(probs):
            own = p.double()
            total += torch.bincount(self.of(p).flatten(), (own * (1 - own)).flatten(), len(total))
        return total.view_as(self.count)

    def of(self, probs: Tensor) -> Tensor:
        """The cell of each probability (R, K), as an index into the flattened cells, (R, K)."""
        ends = self.end[:, :-1].to(probs.dtype).contiguous()
        bins = torch.searchsorted(ends, probs.T.contiguous()).T
        num_classes, num_bins = self.count.shape
        return bins + num_bins * torch.arange(num_classes, device=probs.device)


def classwise_interval(
    probs: Tensor, labels: Tensor, num_bins: int, binning: Binning, level: float
) -> tuple[float, float]:
    """Both ends of an interval for the class-wise error of checked probabilities (N, K), K > 2.

    Noise increases the expected |gap| by at least 0 and at most its mean absolute value, which it
    reaches where the true gap is 0. So the lower end subtracts all of it and the upper end none:
    the interval is valid for all gaps, and conservative where they are large.
    """
    cells = class_cells(probs, labels, num_bins, binning)
    num_samples, num_classes = probs.shape
    scale = num_samples * num_classes
    value = float(cells.gaps.abs().sum()) / scale
    signs, sums = cells.gaps.sign().flatten(), []
    for p, y in row_blocks(probs, labels):
        cell = cells.of(p)
        # Contribution of each sample to the error, for fixed signs of the gaps.
        member = signs[cell.gather(1, y[:, None])][:, 0]
        sums.append((p.double() * signs[cell]).sum(dim=1) - member)
    deviation = float(torch.cat(sums).std()) * math.sqrt(num_samples) / scale
    share = cells.members / cells.count.clamp(min=1)
    # In a cell without members, the probabilities still give a variance.
    variance = torch.maximum(cells.variance(probs), cells.members * (1 - share))
    noise = math.sqrt(2 / math.pi) * float(variance.sqrt().sum()) / scale
    half = float(ndtri((1 + level) / 2)) * deviation
    return max(0.0, value - noise - half), value + half


def classwise_moments(probs: Tensor, num_bins: int, binning: Binning) -> tuple[float, float]:
    """Mean and standard deviation of the class-wise error if these probabilities are calibrated.

    Args:
        probs: Checked probabilities, (N, K), K > 2.
        num_bins: Number of bins per class.
        binning: Kind of bins.
    """
    labels = torch.zeros(len(probs), dtype=torch.int64, device=probs.device)  # not used
    cells = class_cells(probs, labels, num_bins, binning)
    filled = cells.count > 0
    count, variance = cells.count[filled], cells.variance(probs)[filled]
    share = cells.expected[filled] / count
    # Mean absolute deviation of a binomial count (de Moivre), scaled down because counts of samples
    # with unequal probabilities vary less.
    above = (count * share).floor() + 1
    log_choose = torch.lgamma(count + 1) - torch.lgamma(above + 1) - torch.lgamma(count - above + 1)
    log_mass = torch.xlogy(above, share) + torch.special.xlog1py(count - above + 1, -share)
    mean = 2 * above * torch.exp(log_choose + log_mass)
    mean *= (variance / (count * share * (1 - share)).clamp(min=_TINY)).sqrt()
    num_samples, num_classes = probs.shape
    scale = num_samples * num_classes
    # The squared correlations of one class's count with those of the other classes sum to 1/(K−1).
    total = (1 + 1 / (num_classes - 1)) * float((variance - mean.square()).clamp(min=0).sum())
    return float(mean.sum()) / scale, math.sqrt(total) / scale


def class_cells(probs: Tensor, labels: Tensor, num_bins: int, binning: Binning) -> ClassCells:
    """The bins of every class, from checked probabilities (N, K) and labels (N,)."""
    place = equal_width_boundaries if binning == "equal_width" else equal_mass_boundaries
    parts = []
    for ranked in rank_classes(probs, labels):
        boundaries = place(ranked, num_bins)
        bins = ranked.bins(boundaries)
        ends = ranked.scores.gather(1, (boundaries[:, 1:] - 1).clamp(min=0))
        parts.append((bins.count, bins.score_sum, bins.positive_sum, ends.double()))
    return ClassCells(*(torch.cat(columns) for columns in zip(*parts, strict=True)))
