"""Differentiable ranks."""

from collections.abc import Callable
from typing import Final

import numpy as np
import torch
from scipy.optimize import isotonic_regression
from torch import Tensor

PullBack = Callable[[Tensor], Tensor]

_ROWS: Final = 128
"""Rows of the matrix of block means that are held in memory at a time."""


def soft_rank(scores: Tensor, epsilon: float) -> tuple[Tensor, PullBack]:
    """Ranks of scores, ascending from 1, made differentiable by quadratic regularisation.

    The projection of scores/ε onto the permutahedron of (1, ..., n), Blondel et al. 2020, eq. 6:
    the smaller ε, the nearer to the ranks; scores closer than ε move together, ties share their
    mean rank. Ranks lie in [1, n] and sum to n(n+1)/2. Differentiable once.

    Takes O(n log n) time on a CPU. On other devices it takes O(n²), in few operations and without
    waiting for the device: made for batches of up to some thousands.

    Args:
        scores: (n,), float32 or float64, without a graph of derivatives.
        epsilon: Strength ε > 0 of the regularisation.

    Returns:
        The ranks (n,), of the dtype of ``scores``, and the function from a derivative by ranks,
        (n,), to that by scores, (n,).
    """
    if scores.device.type == "cpu":
        return by_pooling(scores, epsilon)
    return by_block_means(scores, epsilon)


# The ranks are x − fit, where x are the ordered scores/ε and fit is the monotone least-squares fit
# to x − (n, ..., 1). The fit replaces each block by its mean, and that is its own Jacobian. All in
# float64: sums over the batch need more digits than float32 has.


def by_pooling(scores: Tensor, epsilon: float) -> tuple[Tensor, PullBack]:
    """The fit by pooling adjacent violators, one after the other; on a CPU.

    In NumPy, whose operations on few numbers take half the time of PyTorch's.
    """
    x = scores.numpy().astype(np.float64)
    x /= -epsilon
    order = x.argsort()
    x = x[order]
    fit = isotonic_regression(x + np.arange(len(x), 0, -1))
    ranks = np.empty_like(x)
    ranks[order] = fit.x - x

    def pull_back(by_ranks: Tensor) -> Tensor:
        grad = by_ranks.numpy()[order].astype(np.float64)
        lengths = np.diff(fit.blocks)
        means = np.add.reduceat(grad, fit.blocks[:-1]) / lengths
        grad -= means.repeat(lengths)
        by_scores = np.empty_like(grad)
        by_scores[order] = grad / epsilon
        return torch.from_numpy(by_scores).to(by_ranks.dtype)

    return torch.from_numpy(ranks).to(scores.dtype), pull_back


def by_block_means(scores: Tensor, epsilon: float) -> tuple[Tensor, PullBack]:
    """The fit in closed form, min over a <= i of max over b >= a of the mean of y_a ... y_b."""
    ordered, order = torch.sort(scores.double() / epsilon, descending=True)
    ranks = torch.arange(len(scores), 0, -1, dtype=ordered.dtype, device=ordered.device)
    fit, starts = _decreasing_fit(ordered - ranks)

    def pull_back(by_ranks: Tensor) -> Tensor:
        grad = by_ranks.gather(0, order).double()
        ends = torch.searchsorted(starts, starts, right=True)
        sums = _prefix_sums(grad)
        grad -= (sums.gather(0, ends) - sums.gather(0, starts)).div_(ends - starts)
        grad /= epsilon
        return torch.empty_like(by_ranks).scatter_(0, order, grad.to(by_ranks.dtype))

    return torch.empty_like(scores).scatter_(0, order, (ordered - fit).to(scores.dtype)), pull_back


def _decreasing_fit(y: Tensor) -> tuple[Tensor, Tensor]:
    """Fit of a decreasing sequence to ``y`` (n,), and where each element's block starts."""
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


def _prefix_sums(y: Tensor) -> Tensor:
    """(n + 1,), from 0 to the sum of all."""
    return torch.cat([y.new_zeros(1), y.cumsum(0)])
