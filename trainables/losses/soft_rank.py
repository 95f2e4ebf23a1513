"""Differentiable ranks."""

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import torch
from scipy.optimize import isotonic_regression
from torch import Tensor

_ROWS: Final = 128
"""Rows of the matrix of block means that are held in memory at a time."""


def soft_rank(scores: Tensor, epsilon: float) -> Tensor:
    """Ranks of scores, ascending from 1, made differentiable by quadratic regularisation.

    The projection of scores/ε onto the permutahedron of (1, ..., n), Blondel et al. 2020, eq. 6:
    the smaller ε, the nearer to the ranks; scores closer than ε move together, ties share their
    mean rank. Ranks lie in [1, n] and sum to n(n+1)/2. Differentiable once.

    Takes O(n log n) time on a CPU. On other devices it takes O(n²), in few operations and without
    waiting for the device: made for batches of up to some thousands.

    Args:
        scores: (n,), float32 or float64.
        epsilon: Strength ε > 0 of the regularisation.

    Returns:
        (n,), of the dtype of ``scores``.
    """
    return _SoftRank.apply(scores, epsilon)  # type: ignore[no-any-return]


def soft_rank_and_pullback(
    scores: Tensor, epsilon: float
) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
    """:func:`soft_rank`, and the function from a derivative by ranks to that by scores."""
    # Prefix sums over the batch need more digits than float32 has.
    ordered, order = torch.sort(scores.double() / epsilon, descending=True)
    ranks = torch.arange(len(scores), 0, -1, dtype=ordered.dtype, device=ordered.device)
    fit, starts = _decreasing_fit(ordered - ranks)

    def pull_back(by_ranks: Tensor) -> Tensor:
        # The fit replaces each block by its mean, and that is its own Jacobian.
        grad = by_ranks.gather(0, order).to(ordered.dtype)
        ends = torch.searchsorted(starts, starts, right=True)
        sums = _prefix_sums(grad)
        grad -= (sums.gather(0, ends) - sums.gather(0, starts)).div_(ends - starts)
        grad /= epsilon
        return torch.empty_like(by_ranks).scatter_(0, order, grad.to(by_ranks.dtype))

    return torch.empty_like(scores).scatter_(0, order, (ordered - fit).to(scores.dtype)), pull_back


class _SoftRank(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, scores: Tensor, epsilon: float) -> Tensor:
        ranks, ctx.pull_back = soft_rank_and_pullback(scores, epsilon)
        return ranks

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None]:
        return ctx.pull_back(grad_output), None


def _decreasing_fit(y: Tensor) -> tuple[Tensor, Tensor]:
    """Least-squares fit of a decreasing sequence to ``y`` (n,), and where each block starts.

    fit_i = min over a <= i of max over b >= a of the mean of y_a ... y_b.
    """
    if y.device.type == "cpu":
        return _decreasing_fit_by_pooling(y)
    n, lowest = len(y), y.amin()
    sums = _prefix_sums(y - lowest)
    # Row r is for a = n−1−r, so that b − a + 1 depends on r + b only and needs no matrix. Where
    # b < a, dividing by infinity gives 0, which is never above a mean of y − lowest.
    lengths = torch.arange(2 - n, n + 1, dtype=y.dtype, device=y.device)
    lengths[: n - 1] = torch.inf
    before, lengths = sums[:-1].flip(0).unsqueeze(1), lengths.unfold(0, n, 1)
    largest = []
    for start in range(0, n, _ROWS):
        end = min(start + _ROWS, n)
        means = sums[n - end + 1 :] - before[start:end]
        largest.append(means.div_(lengths[start:end, n - end :]).amax(1))
    fit = torch.cummin(torch.cat(largest).flip(0), 0)
    return fit.values.add_(lowest), fit.indices


def _decreasing_fit_by_pooling(y: Tensor) -> tuple[Tensor, Tensor]:
    """The same by pooling adjacent violators, one after the other."""
    fit = isotonic_regression(y.neg().numpy())
    starts = np.repeat(fit.blocks[:-1], fit.blocks[1:] - fit.blocks[:-1])
    return torch.from_numpy(fit.x).neg_(), torch.from_numpy(starts)


def _prefix_sums(y: Tensor) -> Tensor:
    """(n + 1,), from 0 to the sum of all."""
    return torch.cat([y.new_zeros(1), y.cumsum(0)])
