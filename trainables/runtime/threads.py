"""The number of PyTorch's threads."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import torch

_SMALL: Final = 200_000  # numbers up to which one thread is as fast as several


@contextmanager
def few_threads(size: int) -> Iterator[bool]:
    """Context: PyTorch uses one thread if tensors of so many numbers are small; yields whether so.

    Further threads mostly wait, and disturb those of BLAS: fits of 360 samples by SciPy's L-BFGS
    took 25 times as long with two.
    """
    if size > _SMALL:
        yield False
        return
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield True
    finally:
        torch.set_num_threads(before)
