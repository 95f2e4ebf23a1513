"""Differentiable ranks."""

import numpy as np
import torch
from scipy.optimize import isotonic_regression
from torch import Tensor


def soft_rank(scores: Tensor, epsilon: float) -> Tensor:
    """Ranks of scores, ascending from 1, made differentiable by quadratic regularisation.

    The projection of scores/ε onto the permutahedron of (1, ..., n), Blondel et al. 2020, eq. 6:
    the smaller ε, the nearer to the ranks; scores closer than ε move together, ties share their
    mean rank. Ranks lie in [1, n] and sum to n(n+1)/2.

    Takes O(n log n) time, on the CPU whatever the device of ``scores``: n numbers are copied there
    and back. There the sums have a fixed order, so that a repeated step gives the same result.

    Args:
        scores: (n,), float32 or float64.
        epsilon: Strength ε > 0 of the regularisation.

    Returns:
        The ranks (n,), of the device and dtype of ``scores``.
    """
    # With x the scores/ε in descending order, the ranks are x − fit, where fit is the decreasing
    # least-squares fit to x − (n, ..., 1): the mean of each block of the fit. Between the changes
    # of blocks that is linear. In float64, as sums over the batch need more digits.
    x, order = (scores.cpu().double() / epsilon).sort(descending=True)
    residual = x - torch.arange(len(x), 0, -1)
    blocks = isotonic_regression(residual.detach().numpy(), increasing=False).blocks
    sizes = torch.from_numpy(np.diff(blocks))
    block = torch.arange(len(sizes)).repeat_interleave(sizes)
    means = torch.zeros(len(sizes), dtype=x.dtype).index_add(0, block, residual) / sizes
    ranks = x - means[block]
    return ranks[order.argsort()].to(scores)
