"""Constants of samples, such as means, on the device of the batches."""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor


def constant(values: tuple[float, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    """Numbers as a tensor (N,), which is kept: made for each batch, it would cost a transfer."""
    if torch.compiler.is_compiling():  # an exported program keeps its own
        return _made(values, dtype, device)
    return _kept(values, dtype, device)


def _made(values: tuple[float, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    return torch.tensor(values, dtype=dtype, device=device)


_kept = lru_cache(maxsize=64)(_made)
