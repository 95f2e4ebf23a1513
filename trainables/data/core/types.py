"""Types of arrays of samples and labels, and the interface of streamed images."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np
import numpy.typing as npt

Inputs: TypeAlias = npt.NDArray[Any]
"""Samples stacked along the first axis."""

Pixels: TypeAlias = npt.NDArray[np.uint8]
Labels: TypeAlias = npt.NDArray[np.int64]
Indices: TypeAlias = npt.NDArray[np.intp]
Flags: TypeAlias = npt.NDArray[np.bool_]


def without_mask(raw: Any, what: str) -> npt.NDArray[Any]:
    """An array whose masked values are missing: NaN among floating-point numbers.

    Raises ``ValueError`` for masked values of another type, which have no such value; ``what``
    names them.
    """
    if not np.ma.is_masked(raw):
        return np.asarray(raw)
    if raw.dtype.kind == "f":
        return np.asarray(raw.filled(np.nan))
    rows = np.asarray(np.ma.getmaskarray(raw).reshape(len(raw), -1).any(axis=1))
    raise ValueError(
        f"{what} are masked, so missing, in {rows.sum():,} of {len(rows):,} rows, the first in row "
        f"{rows.argmax()} (from 0); leave these rows out"
    )


@dataclass(frozen=True, eq=False)
class Streamed(ABC):
    """Images that stay encoded in a file; used instead of an array (N, C, H, W) uint8.

    ``dtype``, ``ndim``, ``shape``, ``size`` and ``nbytes`` are those of the array. It uses only the
    memory of its row numbers, also in processes that it is sent to.

    Attributes:
        path: The file, the same on every machine.
        rows: Numbers of the images in the file, (N,).
        sample_shape: Channels, height and width.
    """

    path: str
    rows: Indices
    sample_shape: tuple[int, int, int]

    dtype: ClassVar[Any] = np.dtype(np.uint8)
    ndim: ClassVar[int] = 4

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the decoded images, (N, C, H, W)."""
        return (len(self.rows), *self.sample_shape)

    @property
    def size(self) -> int:
        """Number of values, or bytes, of the decoded images."""
        return int(np.prod(self.shape, dtype=np.int64))

    nbytes = size

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, rows: Any) -> Self:
        return replace(self, rows=self.rows[rows])

    @abstractmethod
    def read(self) -> Pixels:
        """Decode all images; ``ValueError`` if the file is missing or damaged."""

    @abstractmethod
    def each(self) -> Iterator[Pixels]:
        """Decode the images in order, (C, H, W) each, with one thread per CPU."""

    @abstractmethod
    def contents(self) -> Iterator[bytes]:
        """What distinguishes the images, without decoding them."""

    @abstractmethod
    def sums(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Sums of the values and of their squares per channel over all images, (C,) each."""


Stored: TypeAlias = Inputs | Streamed
"""The samples of a split: in memory, or images that stay encoded on disk."""
