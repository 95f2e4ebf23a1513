"""Differentiable ranks."""

from typing import Any

import torch
from torch import Tensor


def soft_rank(scores: Tensor, epsilon: float) -> Tensor:
    """Ranks of scores, ascending from 1, made differentiable by quadratic regularisation.

    The projection of scores/ε onto the permutahedron of (1, ..., n), Blondel et al. 2020, eq. 6:
    the smaller ε, the nearer to the ranks; scores closer than ε move together, ties share their
    mean rank. Ranks lie in [1, n] and sum to n(n+1)/2. Differentiable once.

    Takes O(n²) memory and time, in few operations and without waiting for the device.

    Args:
        scores: (n,), float32 or float64.
        epsilon: Strength ε > 0 of the regularisation.

    Returns:
        (n,), of the dtype of ``scores``.
    """
    return _SoftRank.apply(scores, epsilon)  # type: ignore[no-any-return]


class _SoftRank(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, scores: Tensor, epsilon: float) -> Tensor:
        # Prefix sums over the batch need more digits than float32 has.
        ordered, order = torch.sort(scores.double() / epsilon, descending=True)
        ranks = torch.arange(len(scores), 0, -1, dtype=ordered.dtype, device=ordered.device)
        fit, starts = _decreasing_fit(ordered - ranks)
        ctx.save_for_backward(order, starts)
        ctx.epsilon = epsilon
        return torch.empty_like(scores).scatter_(0, order, (ordered - fit).to(scores.dtype))

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None]:
        # The fit replaces each block by its mean, and that is its own Jacobian.
        order, starts = ctx.saved_tensors
        grad = grad_output[order].double()
        ends = torch.searchsorted(starts, starts, right=True)
        sums = _prefix_sums(grad)
        grad -= (sums[ends] - sums[starts]) / (ends - starts)
        grad /= ctx.epsilon
        return torch.empty_like(grad_output).scatter_(0, order, grad.to(grad_output.dtype)), None


def _decreasing_fit(y: Tensor) -> tuple[Tensor, Tensor]:
    """Least-squares fit of a decreasing sequence to ``y`` (n,), and where each block starts.

    fit_i = min over a <= i of max over b >= a of the mean of y_a ... y_b.
    """
    sums = _prefix_sums(y)
    edges = torch.arange(len(y) + 1, device=y.device)
    lengths = edges[1:] - edges[:-1].unsqueeze(1)
    means = (sums[1:] - sums[:-1].unsqueeze(1)).div_(lengths)
    largest = means.masked_fill_(lengths <= 0, -torch.inf).amax(1)
    fit = torch.cummin(largest, 0)
    return fit.values, fit.indices


def _prefix_sums(y: Tensor) -> Tensor:
    """(n + 1,), from 0 to the sum of all."""
    return torch.cat([y.new_zeros(1), y.cumsum(0)])
