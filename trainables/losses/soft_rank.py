"""Differentiable ranks (Blondel et al. 2020)."""

import numpy as np
import torch
from torch import Tensor


def soft_rank(scores: Tensor, epsilon: float) -> Tensor:
    """Ascending ranks of scores (n,) from 1, made differentiable by quadratic regularisation.

    The soft ranks are the projection of scores/ε onto the permutahedron of (1, ..., n), Blondel et
    al. 2020, eq. 6. They approach the ranks as ε → 0, lie in [1, n] and sum to n(n+1)/2. Ties share
    their mean rank. Takes O(n log n) time and always runs on the CPU, where the order of summation
    is fixed and the result therefore deterministic.
    """
    # Let x be scores/ε in descending order. The ranks are x − fit, where fit is the decreasing
    # least-squares fit to x − (n, ..., 1): constant on blocks, with the mean of each block. For
    # fixed blocks, this is linear in x. Float64, because sums over the batch lose digits.
    x, order = (scores.cpu().double() / epsilon).sort(descending=True)
    residual = x - torch.arange(len(x), 0, -1)
    block = _blocks(residual.detach())
    sizes = torch.zeros_like(residual).index_add(0, block, torch.ones_like(residual))
    means = torch.zeros_like(residual).index_add(0, block, residual) / sizes.clamp(min=1)
    ranks = x - means[block]
    return ranks[order.argsort()].to(scores)


_OPERATORS = torch.library.Library("calsweep", "FRAGMENT")  # type: ignore[no-untyped-call]
_NAME = "calsweep::decreasing_blocks"
_OPERATORS.define("decreasing_blocks(Tensor values) -> Tensor")  # type: ignore[no-untyped-call]


def _blocks(values: Tensor) -> Tensor:
    """The block of each value (n,) in their decreasing least-squares fit, numbered from 0.

    An operator of its own, because neither ``torch.compile`` nor ``torch.vmap`` sees into SciPy.
    ``torch.library.custom_op`` would import PyTorch's compiler when it is called.
    """
    blocks: Tensor = torch.ops.calsweep.decreasing_blocks.default(values)
    return blocks


@torch.library.impl(_NAME, "cpu", lib=_OPERATORS)
def _(values: Tensor) -> Tensor:
    from scipy.optimize import isotonic_regression  # slow to import

    starts = isotonic_regression(values.numpy(), increasing=False).blocks
    return torch.from_numpy(np.repeat(np.arange(len(starts) - 1), np.diff(starts)))


@torch.library.register_fake(_NAME, lib=_OPERATORS)  # type: ignore[untyped-decorator]
def _(values: Tensor) -> Tensor:
    return torch.empty_like(values, dtype=torch.int64)


@torch.library.register_vmap(_NAME, lib=_OPERATORS)  # type: ignore[untyped-decorator]
def _(info: object, dims: tuple[int], values: Tensor) -> tuple[Tensor, int]:
    return torch.stack([_blocks(each) for each in values.unbind(dims[0])]), 0
