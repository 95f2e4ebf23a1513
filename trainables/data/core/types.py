"""Types of arrays of samples and labels, and of what may replace an array."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Protocol, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt

Inputs: TypeAlias = npt.NDArray[Any]
"""Samples stacked along the first axis."""

Pixels: TypeAlias = npt.NDArray[np.uint8]
Labels: TypeAlias = npt.NDArray[np.int64]
Indices: TypeAlias = npt.NDArray[np.intp]

Masks: TypeAlias = npt.NDArray[np.uint8]
"""Classes of pixels, (N, H, W)."""


@runtime_checkable
class Streamed(Protocol):
    """Images that stay encoded in a file on the disk, in place of their array.

    Attributes:
        path: Of the file.
        dtype: Of the array that they stand for, (N, C, H, W), uint8; so are ``ndim``, ``shape``,
            ``size`` and ``nbytes``.
    """

    dtype: ClassVar[Any]
    ndim: ClassVar[int]

    @property
    def path(self) -> str: ...

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def size(self) -> int: ...

    @property
    def nbytes(self) -> int: ...

    def __len__(self) -> int: ...

    def __getitem__(self, rows: Any) -> Streamed: ...

    def with_channels(self, channels: int) -> Streamed:
        """The same images with ``channels`` channels; grey ones are repeated in each."""

    def read(self) -> Pixels:
        """Decode all images."""

    def each(self) -> Iterator[Pixels]:
        """Decode one image after the other, (C, H, W)."""

    def sums(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Sums of each channel's values, and of their squares: twice (C,)."""


Stored: TypeAlias = Inputs | Streamed
"""The samples of a split: in memory, or images that stay encoded on the disk."""
