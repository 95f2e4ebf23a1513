"""Types of arrays of samples and labels, and the interface of streamed images."""

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
    """Images that stay encoded in a file at ``path``; used instead of an array (N, C, H, W) uint8.

    ``dtype``, ``ndim``, ``shape``, ``size`` and ``nbytes`` are those of the array.
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
        """The same images with ``channels`` channels; greyscale ones are repeated in each."""

    def read(self) -> Pixels:
        """Decode all images."""

    def each(self) -> Iterator[Pixels]:
        """Decode the images in order, (C, H, W) each."""

    def sums(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Sums of the values and of their squares per channel, (C,) each."""


Stored: TypeAlias = Inputs | Streamed
"""The samples of a split: in memory, or images that stay encoded on disk."""
