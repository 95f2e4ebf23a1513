"""Class-wise calibration error of more than two classes: confidence interval and reference value.

The error is the mean over classes of Σ |gap| over cells, the bins of a class. A gap is the sum of
(probability - membership) over the samples of a cell, divided by N.
"""

import math
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from trainables.metrics._inputs import row_blocks, with_ties
from trainables.metrics._ranked import (
    Binning,
    RankedScores,
    boundaries_of,
    mid_ranks,
    rank_classes,
    spread_rows,
)
from trainables.metrics.inference.clusters import Clusters
from trainables.metrics.inference.influence import interval_around

_AUROC_ROWS, _AUROC_ELEMENTS = 500, 2**20  # that an interval's deviation is estimated from
_DEVIATION_ROWS, _DEVIATION_ELEMENTS = 2000, 2**22


@dataclass(frozen=True)
class ClassCells:
    """Bins of every class, including empty ones, (K, B) each, float64.

    ``count`` is the number of samples, ``expected`` the sum of the probabilities of the class,
    ``members`` the number of samples whose label is the class, and ``variance`` the variance of
    that number if the probabilities are right. ``end`` is the largest probability; for an empty
    bin, that of the previous bin, or -inf.
    """

    count: Tensor
    expected: Tensor
    members: Tensor
    variance: Tensor
    end: Tensor

    @property
    def gaps(self) -> Tensor:
        """Expected minus observed number of members, (K, B)."""
        return self.expected - self.members

    def of(self, probs: Tensor) -> Tensor:
        """The cell of each probability (R, K), as an index into the flattened cells, (R, K)."""
        ends = self.end[:, :-1].to(probs.dtype).contiguous()
        bins = torch.searchsorted(ends, with_ties(probs.T).contiguous()).T
        num_classes, num_bins = self.count.shape
        return bins + num_bins * torch.arange(num_classes, device=probs.device)


@dataclass(frozen=True)
class ClassRanks:
    """Inputs of class-wise metrics and intervals, from one sort of each class's probabilities.

    Attributes:
        cells: The bins of every class, by their kind.
        auroc: Area under the ROC curve of each class against the rest, (K,), float64.
        auroc_influence: Contribution of each of R rows to the sum of the areas, (R,), float64.
    """

    cells: dict[Binning, ClassCells]
    auroc: Tensor
    auroc_influence: Tensor


def class_ranks(
    probs: Tensor, labels: Tensor, num_bins: int, *, every_row: bool = False
) -> ClassRanks:
    """Rank checked probabilities (N, K) of labels (N,) once for all class-wise metrics.

    `every_row` gives the contribution of all rows to the areas, as clusters need them.
    """
    rows = spread_rows(probs, len(probs) if every_row else _AUROC_ROWS, _AUROC_ELEMENTS)
    influence = torch.zeros(len(rows), dtype=torch.float64, device=probs.device)
    parts: dict[Binning, list[ClassCells]] = {"equal_width": [], "equal_mass": []}
    areas, start = [], 0
    for ranked in rank_classes(probs, labels):
        for binning, cells in parts.items():
            cells.append(_cells(ranked, num_bins, binning))
        areas.append(ranked.auroc())
        end = start + len(ranked.scores)
        member = labels[rows] == torch.arange(start, end, device=probs.device)[:, None]
        values = with_ties(probs[rows, start:end].T).contiguous()
        influence += _auroc_influence(ranked, areas[-1][:, None], values, member)
        start = end
    joined = {binning: _joined(cells) for binning, cells in parts.items()}
    return ClassRanks(joined, torch.cat(areas), influence)


def _auroc_influence(ranked: RankedScores, area: Tensor, values: Tensor, member: Tensor) -> Tensor:
    """Contribution of each row, with `values` (C, R), to the sum of the defined areas, (R,)."""
    num_samples = ranked.scores.shape[1]
    positives = ranked.positives()[:, None]
    share = positives / num_samples
    below_members = mid_ranks(ranked.positive_scores(), values)
    wins = (mid_ranks(ranked.scores, values) - below_members) / (num_samples - positives)
    losses = 1 - below_members / positives
    influence = torch.where(member, (wins - area) / share, (losses - area) / (1 - share))
    return torch.where(area.isnan(), 0.0, influence).sum(dim=0)


def classwise_interval(
    probs: Tensor, labels: Tensor, cells: ClassCells, level: float, clusters: Clusters | None = None
) -> tuple[float, float]:
    """Both ends of an interval for the class-wise error of checked probabilities (N, K), K > 2.

    Noise increases the expected |gap| by at least 0 and at most its mean absolute value, which it
    reaches where the true gap is 0. So the lower end subtracts all of it and the upper end none:
    the interval is valid for all gaps, and conservative where they are large. The deviation is
    estimated from 2,000 rows or 2^22 probabilities, whichever is more; with clusters, from all.
    """
    num_samples, num_classes = probs.shape
    scale = num_samples * num_classes
    value = float(cells.gaps.abs().sum()) / scale
    rows = spread_rows(probs, num_samples if clusters else _DEVIATION_ROWS, _DEVIATION_ELEMENTS)
    signs, sums = cells.gaps.sign().flatten(), []
    for p, y in row_blocks(probs[rows], labels[rows]):
        cell = cells.of(p)
        # Contribution of each sample to the error, for fixed signs of the gaps.
        member = signs[cell.gather(1, y[:, None])][:, 0]
        sums.append((p.double() * signs[cell]).sum(dim=1) - member)
    share = cells.members / cells.count.clamp(min=1)
    # In a cell without members, the probabilities still give a variance.
    variance = torch.maximum(cells.variance, cells.members * (1 - share))
    if clusters is not None:
        together = _clustered_variance(probs, labels, cells, clusters)
        variance = torch.maximum(variance, together.to(variance))
    noise = math.sqrt(2 / math.pi) * float(variance.sqrt().sum()) / scale
    # A row adds at most 2: a label that is not the class of probability 1.
    low, high = interval_around(torch.cat(sums), num_samples, level, clusters, (-2.0, 2.0))
    return max(0.0, value - noise + low / num_classes), value + high / num_classes


def _clustered_variance(
    probs: Tensor, labels: Tensor, cells: ClassCells, clusters: Clusters
) -> Tensor:
    """Variance of the sum of (probability - membership) in each cell, (K, B)."""
    found = []
    for index, (ends, column) in enumerate(zip(cells.end, probs.T, strict=True)):
        values = with_ties(column)
        bins = torch.searchsorted(ends[:-1].to(values.dtype).contiguous(), values.contiguous())
        off = column.double() - (labels == index).double()
        sums = clusters.cell_sums(bins.cpu().numpy(), off.cpu().numpy(), len(ends))
        found.append(torch.from_numpy(clusters.variances(sums)))
    return torch.stack(found) * len(probs) ** 2


def classwise_moments(probs: Tensor, num_bins: int, binning: Binning) -> tuple[float, float]:
    """Mean and standard deviation of the class-wise error if these probabilities are calibrated.

    From checked probabilities (N, K), K > 2.
    """
    labels = torch.zeros(len(probs), dtype=torch.int64, device=probs.device)  # not used
    cells = class_cells(probs, labels, num_bins, binning)
    filled = cells.count > 0
    count, variance = cells.count[filled], cells.variance[filled]
    share = cells.expected[filled] / count
    # Mean absolute deviation of a binomial count (de Moivre), scaled down because counts of samples
    # with unequal probabilities vary less.
    above = (count * share).floor() + 1
    log_choose = torch.lgamma(count + 1) - torch.lgamma(above + 1) - torch.lgamma(count - above + 1)
    log_mass = torch.xlogy(above, share) + torch.special.xlog1py(count - above + 1, -share)
    mean = 2 * above * torch.exp(log_choose + log_mass)
    mean *= (variance / (count * share * (1 - share)).clamp(min=1e-300)).sqrt()
    num_samples, num_classes = probs.shape
    scale = num_samples * num_classes
    # The squared correlations of one class's count with those of the other classes sum to 1/(K−1).
    total = (1 + 1 / (num_classes - 1)) * float((variance - mean.square()).clamp(min=0).sum())
    return float(mean.sum()) / scale, math.sqrt(total) / scale


def class_cells(probs: Tensor, labels: Tensor, num_bins: int, binning: Binning) -> ClassCells:
    """The bins of every class, from checked probabilities (N, K) and labels (N,)."""
    return _joined([_cells(ranked, num_bins, binning) for ranked in rank_classes(probs, labels)])


def _cells(ranked: RankedScores, num_bins: int, binning: Binning) -> ClassCells:
    boundaries = boundaries_of(ranked, num_bins, binning)
    bins = ranked.bins(boundaries)
    last = boundaries[:, 1:] - 1
    ends = ranked.scores.gather(1, last.clamp(min=0)).masked_fill(last < 0, -torch.inf)
    variance = ranked.variance_sums(boundaries)
    return ClassCells(bins.count, bins.score_sum, bins.positive_sum, variance, ends.double())


def _joined(parts: list[ClassCells]) -> ClassCells:
    names = [field.name for field in fields(ClassCells)]
    return ClassCells(*(torch.cat([getattr(part, name) for part in parts]) for name in names))
