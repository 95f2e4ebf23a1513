"""Constants of kinds of sample, such as means, cached on the device."""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor


def constant(values: tuple[float, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    """A cached tensor (N,) of constants, which avoids a transfer for each batch."""
    if torch.compiler.is_compiling():  # an exported program stores its own constants
        return _made(values, dtype, device)
    return _kept(values, dtype, device)


def _made(values: tuple[float, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    return torch.tensor(values, dtype=dtype, device=device)


_kept = lru_cache(maxsize=64)(_made)
