"""Intervals of class-wise calibration errors: thousands of small cells, so no draws.

The error is a sum over cells (a bin of a class each) of |expected - observed members|. For gaps of
a given size the mean of each term is exact for binomial counts, and the sum of so many is normal.
Its variance has a part that is linear in the counts, which members of one class take from the
others, and the rest, which hardly depends on other cells. Where bins hold as many samples each,
other samples also move their ends, across which the gap may change its sign.

A line of gaps is an array (C, 2): of each cell the mean gap, and the gap at its upper end.
"""

import math
from dataclasses import dataclass

import numpy as np
import torch
from scipy.special import gammaln, ndtr, ndtri, xlog1py, xlogy
from torch import Tensor

from trainables.metrics._inputs import row_blocks
from trainables.metrics._inversion import Array, invert
from trainables.metrics._ranked import equal_mass_boundaries, equal_width_boundaries, rank_classes
from trainables.metrics.calibration import Binning

_ROW_ELEMENTS = 2**17
_MIN_ROWS = 500
_LARGEST_COUNT = 60  # beyond it, or with a variance above the next, counts are taken as normal
_LARGEST_VARIANCE = 9.0
_NEWTON_STEPS = 15
_PARTS_OF_A_CELL = 8  # one of them on each side tells of the gap at an end
_LOWEST_LOG = -30.0
_TINY = 1e-300


@dataclass(frozen=True)
class ClassCells:
    """Bins of every class, not empty ones: C cells.

    Attributes:
        count: Samples per cell, float64 (C,).
        score: Mean probability of the class, (C,).
        recalibrated: Mean of the recalibrated probabilities, (C,).
        members: Samples of the class, (C,).
        unlike: Variance of the members over that of as many samples of the same probability each,
            by the probabilities and by the recalibrated ones, (C,) each.
        end: Probability at its upper end where that moves with the samples, else nan, (C,).
        shift: What recalibration adds there, (C,).
        rows: Probabilities of some samples, spread evenly, (R, K).
        cell_of: The cell of each of them, int64 (R, K).
        num_samples: N.
    """

    count: Array
    score: Array
    recalibrated: Array
    members: Array
    unlike: tuple[Array, Array]
    end: Array
    shift: Array
    rows: Array
    cell_of: np.ndarray
    num_samples: int


def classwise_interval(
    probs: Tensor, labels: Tensor, num_bins: int, binning: Binning, level: float
) -> tuple[float, float]:
    """Both ends of the interval of the class-wise error of checked probabilities (N, K), K > 2."""
    cells = _cells(probs, labels, num_bins, binning, _most_likely_power(probs, labels))
    observed = float(np.abs(cells.count * cells.score - cells.members).sum())
    scale = cells.num_samples * probs.shape[1]
    # Along the second line every class is given to samples of other classes.
    lines = _direction(cells), -np.stack([cells.score, cells.end], axis=1)
    low, high = invert(_NormalErrors(cells), observed, level, lines)
    return low / scale, high / scale


def classwise_moments(
    probs: Tensor, labels: Tensor, num_bins: int, binning: Binning
) -> tuple[float, float]:
    """Mean and deviation of the class-wise error of a calibrated model, K > 2; labels count not."""
    cells = _cells(probs, labels, num_bins, binning)
    scale = cells.num_samples * probs.shape[1]
    mean, deviation = _NormalErrors(cells).moments_without_gaps()
    return mean / scale, deviation / scale


def _cells(
    probs: Tensor, labels: Tensor, num_bins: int, binning: Binning, power: float = 1.0
) -> ClassCells:
    """Bins of every class; probabilities are recalibrated by a power of them."""
    place = equal_width_boundaries if binning == "equal_width" else equal_mass_boundaries
    sums, cuts = [], []
    for ranked in rank_classes(probs, labels):
        boundaries = place(ranked, num_bins)
        bins = ranked.bins(boundaries)
        sums.append(torch.stack([bins.count, bins.score_sum, bins.positive_sum]))
        # The largest score of each bin (of an empty one, that of the bin before).
        last = (boundaries[:, 1:-1] - 1).clamp(min=0)
        cuts.append(ranked.scores.gather(1, last))
    count, score_sum, members = torch.cat(sums, dim=1).flatten(1)
    filled = count > 0
    position = (filled.cumsum(0) - 1).clamp_(min=0)
    bin_ends = torch.cat(cuts).contiguous()
    first_bins = num_bins * torch.arange(probs.shape[1], device=probs.device)[:, None]

    def cell_of(rows: Tensor) -> Tensor:
        """The cell of each probability (R, K), (K, R)."""
        cells: Tensor = position[torch.searchsorted(bin_ends, rows.T.contiguous()) + first_bins]
        return cells

    def recalibrate(rows: Tensor) -> Tensor:
        powers = rows.pow(power)
        return powers / powers.sum(dim=1, keepdim=True)

    count = count[filled]
    # Of every sample: in a part of them many cells would be empty.
    totals = torch.zeros(3, len(count), dtype=torch.float64, device=probs.device)
    for (rows,) in row_blocks(probs):
        raw = rows.double()
        recalibrated = recalibrate(raw)
        values = raw * (1 - raw), recalibrated, recalibrated * (1 - recalibrated)
        cell = cell_of(rows).flatten()
        totals += torch.stack([torch.bincount(cell, v.T.flatten(), len(count)) for v in values])
    means = (totals / count).cpu().numpy()
    score = (score_sum[filled] / count).cpu().numpy()
    num_samples, num_classes = probs.shape
    num_rows = min(num_samples, max(_MIN_ROWS, _ROW_ELEMENTS // num_classes))
    some = probs[torch.arange(num_rows, device=probs.device) * num_samples // num_rows]
    rows, cell_of_rows = some.double(), cell_of(some).T.cpu().numpy()
    end = shift = np.full_like(score, np.nan)
    if binning == "equal_mass":
        ends = torch.nn.functional.pad(bin_ends, (0, 1), value=math.nan)  # the last bin ends at 1
        end = ends.flatten()[filled].double().cpu().numpy()
        shifts = (recalibrate(rows) - rows).cpu().numpy()
        class_of = (filled.nonzero()[:, 0] // num_bins).cpu().numpy()
        shift = _near_ends(shifts, rows.cpu().numpy(), cell_of_rows, class_of)
    return ClassCells(
        count.cpu().numpy(),
        score,
        means[1],
        members[filled].cpu().numpy(),
        (_variance_ratio(score, means[0]), _variance_ratio(means[1], means[2])),
        end,
        shift,
        rows.cpu().numpy(),
        cell_of_rows,
        num_samples,
    )


def _near_ends(values: Array, rows: Array, cell_of: np.ndarray, class_of: np.ndarray) -> Array:
    """Mean of the values (R, K) of the samples around the upper end of each cell, (C,)."""
    (num_rows, num_classes), num_cells = rows.shape, len(class_of)
    ranked = np.take_along_axis(values, rows.argsort(axis=0), axis=0)
    sums = np.concatenate([np.zeros((1, num_classes)), ranked.cumsum(axis=0)])
    # Every row has a cell of each class.
    below = np.bincount(cell_of.flatten(), minlength=num_cells).cumsum() - num_rows * class_of
    around = max(1, num_rows * num_classes // (num_cells * _PARTS_OF_A_CELL))
    first, last = np.clip(below - around, 0, None), np.clip(below + around, None, num_rows)
    mean: Array = (sums[last, class_of] - sums[first, class_of]) / (last - first)
    return mean


def _direction(cells: ClassCells) -> Array:
    """What the gaps are as far as the data tell them from noise."""
    share = np.clip(cells.recalibrated, 0, 1)
    unit = share * (1 - share)
    residual = cells.members - cells.count * share
    noise = cells.count * unit
    # Of the residuals' mean square, what noise does not explain (empirical Bayes).
    excess = float((residual**2 - noise).sum() / ((cells.count**2 * unit).sum() + _TINY))
    signal = max(0.0, excess)
    kept = signal * cells.count / (signal * cells.count + 1)
    curve = np.clip(share + kept * residual / cells.count, 0, 1) - cells.score
    return np.stack([curve, cells.shift], axis=1)


def _most_likely_power(probs: Tensor, labels: Tensor) -> float:
    """The inverse temperature of largest likelihood, under a prior of one sample at 1."""
    power = 1.0
    # Of many samples, by a part of them first: that spares steps over all.
    for stride in sorted({max(1, probs.numel() // _ROW_ELEMENTS), 1}, reverse=True):
        power = _climb(power, probs[::stride], labels[::stride])
    return power


def _climb(power: float, probs: Tensor, labels: Tensor) -> float:
    for _ in range(_NEWTON_STEPS):
        slope = curvature = 0.0
        for p, y in row_blocks(probs, labels):
            logs = p.double().log().clamp_(min=_LOWEST_LOG)
            weights = torch.softmax(power * logs, dim=1)
            mean = (weights * logs).sum(dim=1)
            slope += float((logs.gather(1, y[:, None])[:, 0] - mean).sum())
            curvature += float((weights * logs.square()).sum() - mean.square().sum())
        step = (slope - (power - 1)) / (curvature + 1)
        power = min(max(power + max(-1.0, min(1.0, step)), 0.05), 20.0)
        if abs(step) < 1e-4:
            break
    return power


class _NormalErrors:
    """Sums over cells of |expected - observed members|, taken as normal."""

    def __init__(self, cells: ClassCells) -> None:
        self.cells = cells
        num_classes = cells.rows.shape[1]
        # Sum over the other classes of the squared correlation of two counts of a multinomial.
        self.others = 1 + 1 / (num_classes - 1)
        self.row_share = cells.num_samples / len(cells.rows)
        counts = np.arange(_LARGEST_COUNT + 1.0)
        n = cells.count[:, None]
        with np.errstate(invalid="ignore"):
            choose = gammaln(n + 1) - gammaln(counts + 1) - gammaln(np.maximum(n - counts, 0) + 1)
        self.log_choose = np.where(counts <= n, choose, -np.inf)

    def population(self, direction: Array, size: float) -> float:
        share = self._share(direction, size)
        return float((self.cells.count * np.abs(share - self.cells.score)).sum())

    def share_above(self, observed: float, direction: Array, size: float) -> float:
        mean, deviation = self._moments(direction, size)
        if size > 1:  # shares that come to 0 and stay there vary less than those of larger gaps do
            deviation = max(deviation, self._moments(direction, 1)[1])
        return float(ndtr((mean - observed) / (deviation + _TINY)))

    def quantile_without_gaps(self, share: float) -> float:
        mean, deviation = self.moments_without_gaps()
        return float(mean + ndtri(share) * deviation)

    def moments_without_gaps(self) -> tuple[float, float]:
        """Mean and deviation of the sums of a calibrated model."""
        return self._moments(np.zeros((len(self.cells.score), 2)), 0)

    def _share(self, direction: Array, size: float) -> Array:
        share: Array = np.clip(self.cells.score + size * direction[:, 0], 0, 1)
        return share

    def _moments(self, direction: Array, size: float) -> tuple[float, float]:
        share = self._share(direction, size)
        at = min(size, 1.0)
        # Counts of samples of unlike probabilities vary less than those of like ones.
        ratio = (1 - at) * self.cells.unlike[0] + at * self.cells.unlike[1]
        mean, variance, slope = self._terms(share, ratio)
        linear = slope**2 * self.cells.count * share * (1 - share) * ratio
        # Each sample is a member of one class: what its classes' slopes add up to varies.
        rows, cell_of = self.cells.rows, self.cells.cell_of
        shares = np.clip(rows + size * direction[:, 0][cell_of], 0, None)
        shares /= np.maximum(shares.sum(axis=1, keepdims=True), _TINY)
        slopes = slope[cell_of]
        first = (slopes * shares).sum(axis=1)
        of_labels = float(((slopes**2 * shares).sum(axis=1) - first**2).sum()) * self.row_share
        # Other samples have other probabilities too, and other ends of bins.
        moved = self._of_ends(slope, direction, size)
        gaps = (slopes * (shares - rows) + moved[cell_of]).sum(axis=1)
        of_samples = float(gaps.var()) * self.cells.num_samples
        rest = self.others * np.maximum(variance - linear, 0).sum()
        return float(mean.sum()), float(np.sqrt(of_labels + of_samples + rest))

    def _of_ends(self, slope: Array, direction: Array, size: float) -> Array:
        """What a sample of a cell does to the sum by moving the ends above it, (C,).

        It moves each of them by one sample, whose gap then counts as one of the next cell.
        """
        end = self.cells.end[:-1]
        gap = np.clip(end + size * direction[:-1, 1], 0, 1) - end
        lost = np.nan_to_num((slope[:-1] - slope[1:]) * gap)
        # Of later classes too: as every sample has a cell of each, that adds the same to all.
        moved: Array = -np.append(lost, 0)[::-1].cumsum()[::-1]
        return moved

    def _terms(self, share: Array, ratio: Array) -> tuple[Array, Array, Array]:
        """Of |members - expected| per cell: mean, variance, and slope on the members."""
        count, expected = self.cells.count, self.cells.count * self.cells.score
        centre, spread = count * share, count * share * (1 - share)
        shift = centre - expected
        mean, slope = _folded_normal(shift, spread * ratio)
        small = (spread < _LARGEST_VARIANCE) & (np.minimum(centre, count) < _LARGEST_COUNT / 2)
        if small.any():
            q, n = share[small][:, None], count[small][:, None]
            k = np.arange(_LARGEST_COUNT + 1.0)
            mass = np.exp(self.log_choose[small] + xlogy(k, q) + xlog1py(np.maximum(n - k, 0), -q))
            off = np.abs(k - expected[small][:, None])
            binomial = (mass * off).sum(axis=1)
            covariance = (mass * off * (k - n * q)).sum(axis=1)
            normal, _ = _folded_normal(shift[small], spread[small])
            mean[small] *= binomial / np.maximum(normal, _TINY)
            slope[small] = covariance / np.maximum(spread[small], _TINY)
        variance = np.maximum(spread * ratio + shift**2 - mean**2, 0)
        return mean, variance, slope


def _folded_normal(centre: Array, variance: Array) -> tuple[Array, Array]:
    """Mean of |x| for normal x, and its derivative with respect to the centre."""
    deviation = np.sqrt(np.maximum(variance, _TINY))
    z = np.clip(centre / deviation, -40, 40)
    slope = 2 * ndtr(z) - 1
    return centre * slope + deviation * np.sqrt(2 / np.pi) * np.exp(-(z**2) / 2), slope


def _variance_ratio(mean: Array, variance: Array) -> Array:
    """Mean variance of cells' samples over that of samples of their mean probability."""
    ratio: Array = variance / np.maximum(mean * (1 - mean), _TINY)
    return np.where(mean > 0, np.clip(ratio, 0, 1), 1)
