"""Sorted scores with the positions of the positives, the basis of binned errors and AUROC.

A top-label metric has one column of scores, the confidences; its positives are the correct
predictions. A class-wise metric has one column per class; its positives are the samples of the
class. Only values are sorted, not indices, and binary search finds the N positives: 20 times faster
than an argsort for 50,000 samples and 1,000 classes.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, get_args

import torch
from torch import Tensor

from trainables.metrics._inputs import map_rows, with_ties

_BLOCK_ELEMENTS = 2**21  # of a block of classes
_EDGE_ROUNDING = 8 * torch.finfo(torch.float32).eps

Confidence = Literal["max_probability", "margin", "negative_entropy"]
Binning = Literal["equal_width", "equal_mass"]


@dataclass(frozen=True)
class Bins:
    """Counts and sums per column and bin, each of shape (C, B), float64."""

    count: Tensor
    score_sum: Tensor
    positive_sum: Tensor

    def gap_sum(self) -> Tensor:
        """|sum of scores - number of positives| per bin, shape (C, B)."""
        return (self.score_sum - self.positive_sum).abs()


@dataclass(frozen=True)
class RankedScores:
    """C columns of N scores in ascending order, and the positions of their P positives.

    A positive with a tied score is spread evenly over the positions [`first`, `last`) of the tie,
    so the order of the samples does not matter.
    """

    scores: Tensor  # (C, N), ascending
    column: Tensor  # (P,), int64
    first: Tensor  # (P,), int64
    last: Tensor  # (P,), int64

    def positives(self) -> Tensor:
        """Number of positives per column, shape (C,), float64."""
        return torch.bincount(self.column, minlength=len(self.scores)).double()

    def bins(self, boundaries: Tensor) -> Bins:
        """Sums between consecutive `boundaries`: positions from 0 to N, shape (C, B + 1)."""
        score_sums = self._sums.gather(1, boundaries).diff(dim=1)
        start = self.first[:, None]
        share = (boundaries[self.column] - start).double() / (self.last[:, None] - start)
        positive_sums = torch.zeros_like(boundaries, dtype=torch.float64)
        positive_sums.index_add_(0, self.column, share.clamp_(0, 1))
        return Bins(boundaries.diff(dim=1).double(), score_sums, positive_sums.diff(dim=1))

    def auroc(self) -> Tensor:
        """Area under the ROC curve per column, shape (C,); nan without positives or negatives.

        The Mann–Whitney statistic with mid-ranks, so ties count one half.
        """
        num_columns, num_samples = self.scores.shape
        rank_sum = torch.zeros(num_columns, dtype=torch.float64, device=self.scores.device)
        rank_sum.index_add_(0, self.column, (self.first + self.last + 1).double() / 2)
        positives = self.positives()
        wins = rank_sum - positives * (positives + 1) / 2
        return wins / (positives * (num_samples - positives))

    def variance_sums(self, boundaries: Tensor) -> Tensor:
        """Sums of score · (1 - score) between `boundaries`, shape (C, B), float64."""
        return self._variance_sums.gather(1, boundaries).diff(dim=1)

    def positive_scores(self) -> Tensor:
        """Scores of the positives of each column, shape (C, M), ascending, then infinity."""
        values = self.scores[self.column, self.first]
        padded, _ = _by_column(self.column, values, len(self.scores), math.inf)
        return padded.sort(dim=1).values

    @cached_property
    def _sums(self) -> Tensor:
        """Sum of the scores before each position 0 .. N, shape (C, N + 1)."""
        return _sums_before(self.scores)

    @cached_property
    def _variance_sums(self) -> Tensor:
        """Sum of score · (1 - score) before each position 0 .. N, shape (C, N + 1)."""
        return _sums_before(self.scores * (1 - self.scores))


def rank_top_label(confidence: Tensor, correct: Tensor) -> RankedScores:
    """One column: confidences (N,), positives where `correct` (N,) is true."""
    scores = _sort(confidence[None])
    values = confidence[correct]
    first, last = (torch.searchsorted(scores[0], values, right=right) for right in (False, True))
    return RankedScores(scores, torch.zeros_like(first), first, last)


def rank_classes(probs: Tensor, labels: Tensor) -> Iterator[RankedScores]:
    """One column per class, yielded in blocks of classes to bound memory."""
    num_samples, num_classes = probs.shape
    samples = labels.argsort()
    ends = torch.bincount(labels, minlength=num_classes).cumsum(0).tolist()
    width = max(1, _BLOCK_ELEMENTS // num_samples)
    for low in range(0, num_classes, width):
        high = min(low + width, num_classes)
        members = samples[(ends[low - 1] if low else 0) : ends[high - 1]]
        column = labels[members] - low
        values = with_ties(probs[members, labels[members]])
        scores = _sort(with_ties(probs[:, low:high].T))
        yield RankedScores(scores, column, *_positions(scores, column, values))


def boundaries_of(ranked: RankedScores, num_bins: int, binning: Binning) -> Tensor:
    """Boundaries of bins as positions, shape (C, B + 1), int64."""
    place = equal_width_boundaries if binning == "equal_width" else equal_mass_boundaries
    return place(ranked, num_bins)


def equal_width_boundaries(ranked: RankedScores, num_bins: int) -> Tensor:
    """Boundaries of the equal-width bins (lower, upper] as positions, shape (C, B + 1), int64.

    The first bin includes scores of exactly 0, so no sample is dropped.
    """
    scores = ranked.scores
    edges = upper_edges(scores, num_bins)
    inner = torch.searchsorted(scores, edges.repeat(len(scores), 1), right=True)
    return torch.cat([inner.new_zeros(len(scores), 1), inner], dim=1)


def equal_mass_boundaries(ranked: RankedScores, num_bins: int) -> Tensor:
    """Boundaries of the equal-mass bins as positions, shape (C, B + 1), int64.

    The first N mod B bins hold one more sample; no sample is dropped. Equal scores share a bin: a
    boundary inside a tie moves to its nearer end, so bins may be empty.
    """
    scores = ranked.scores
    num_columns, num_samples = scores.shape
    size, larger = divmod(num_samples, num_bins)
    bins = torch.arange(num_bins + 1, device=scores.device)
    even = (bins * size + bins.clamp(max=larger)).repeat(num_columns, 1)
    values = scores.gather(1, even.clamp(max=num_samples - 1))
    first, last = (torch.searchsorted(scores, values, right=right) for right in (False, True))
    moved = torch.where(even - first <= last - even, first, last)
    moved[:, 0], moved[:, -1] = 0, num_samples
    return moved


def upper_edges(scores: Tensor, num_bins: int) -> Tensor:
    """Upper edges k/B of equal-width bins over [0, 1], (B,), dtype and device of `scores`.

    A score that exceeds an edge by no more than rounding in float32 counts as equal to it, in every
    dtype: files and networks give .6 as 0.60000002.
    """
    edges = torch.arange(1, num_bins + 1, dtype=torch.float64, device=scores.device) / num_bins
    return (edges * (1 + _EDGE_ROUNDING)).to(scores.dtype)


def mid_ranks(ascending: Tensor, values: Tensor) -> Tensor:
    """How many of `ascending` (..., N) lie below each of `values` (..., R), ties half; float64."""
    left = torch.searchsorted(ascending, values.contiguous())
    right = torch.searchsorted(ascending, values.contiguous(), right=True)
    return (left + right).double() / 2


def tie_means(ordered: Tensor, values: Tensor) -> Tensor:
    """The mean of values (N,) over samples of equal score, given scores in order (N,)."""
    _, tie, size = torch.unique_consecutive(ordered, return_inverse=True, return_counts=True)
    means: Tensor = torch.bincount(tie, values) / size
    return means[tie]


def _sort(scores: Tensor) -> Tensor:
    if scores.device.type == "cpu":  # NumPy's vectorised sort is over ten times faster
        ascending = scores.clone(memory_format=torch.contiguous_format)
        ascending.numpy().sort(axis=1)
        return ascending
    return torch.sort(scores.contiguous(), dim=1).values


def _positions(scores: Tensor, column: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    """First and last position of `values` in their (sorted) column; `column` ascends."""
    padded, slot = _by_column(column, values, len(scores), 0.0)
    first, last = (torch.searchsorted(scores, padded, right=right) for right in (False, True))
    return first[column, slot], last[column, slot]


def _by_column(
    column: Tensor, values: Tensor, num_columns: int, fill: float
) -> tuple[Tensor, Tensor]:
    """Values (P,) as rows (C, M) by their ascending `column`, and the place of each in its row."""
    counts = torch.bincount(column, minlength=num_columns)
    slot = torch.arange(len(column), device=column.device) - (counts.cumsum(0) - counts)[column]
    padded = values.new_full((num_columns, int(counts.max())), fill)
    padded[column, slot] = values
    return padded, slot


def _sums_before(values: Tensor) -> Tensor:
    """Sum of the values (C, N) before each position 0 .. N, shape (C, N + 1), float64."""
    sums = values.new_empty(len(values), values.shape[1] + 1, dtype=torch.float64)
    sums[:, 0] = 0
    torch.cumsum(values, dim=1, dtype=torch.float64, out=sums[:, 1:])
    return sums


def top_label(probs: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Largest probability (N,), and whether its class is the label (N,), bool."""
    confidence, predicted = probs.max(dim=1)
    return with_ties(confidence), predicted == labels


def confidence_scores(probs: Tensor, confidence: Confidence) -> Tensor:
    """Confidence score of each sample, by which predictions are ranked, shape (N,)."""
    if confidence == "max_probability":
        return with_ties(probs.amax(dim=1))
    if confidence == "margin":
        first, second = probs.topk(2, dim=1).values.double().unbind(dim=1)
        return with_ties(first - second)
    if confidence == "negative_entropy":
        return with_ties(map_rows(negative_entropy, probs))
    allowed = ", ".join(get_args(Confidence))
    raise ValueError(f"confidence must be one of {allowed}, got {confidence!r}")


def negative_entropy(probs: Tensor) -> Tensor:
    """The sum of p ln p of each sample, float64 (N,)."""
    probs = probs.double()
    return torch.xlogy(probs, probs).sum(dim=1)


def spread_rows(probs: Tensor, least: int, elements: int) -> Tensor:
    """Indices of rows of `probs` (N, K), spread evenly: `least` or `elements` / K, at most N."""
    num_samples, num_classes = probs.shape
    count = min(num_samples, max(least, elements // num_classes))
    return torch.arange(count, device=probs.device) * num_samples // count
