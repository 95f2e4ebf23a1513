"""The predictions of a trial on a split, and their file, without torch.

Importing torch takes longer than drawing a whole report from such files. pyarrow takes a third of a
second, so only what reads or writes a file imports it.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from trainables.files.storage import Folder

if TYPE_CHECKING:
    from torch import Tensor

Array = npt.NDArray[Any]

_RARE = 0.1
_DECISIONS, _CLUSTER_SIZE = b"decisions", b"cluster_size"
_GROUP = "group"


@dataclass(frozen=True, eq=False)
class Rows:
    """The predictions of a trial on a split, a row per decision.

    Attributes:
        logits: (N, K) float32.
        labels: (N,) int64.
        decisions: Number of consecutive rows per sample that are different decisions.
        cluster_size: Number of consecutive rows per sample that are similar, such as the pixels of
            an image. Samples, not rows, are then independent.
        groups: (N,) int64, equal for rows of one group, such as a patient; groups, not samples, are
            then independent. None if there are none.
    """

    logits: Array
    labels: Array
    decisions: int = 1
    cluster_size: int = 1
    groups: Array | None = None

    @property
    def per_sample(self) -> int:
        """Number of rows per sample."""
        return self.decisions * self.cluster_size

    @property
    def independent(self) -> bool:
        """Whether samples, and rows of different samples, are independent."""
        return self.groups is None and self.cluster_size == 1

    @property
    def num_groups(self) -> int | None:
        """Number of groups; None if there are none."""
        return None if self.groups is None else len(np.unique(self.groups))

    def clusters(self) -> Tensor | None:
        """The cluster of each row (N,), see :func:`trainables.metrics.interval`; None if none."""
        return None if self.independent else self.units()

    def units(self) -> Tensor | None:
        """The group or sample of each row (N,); None if each row is an independent sample."""
        import torch

        if self.groups is not None:
            return torch.from_numpy(self.groups.copy())
        if self.per_sample == 1:
            return None
        return torch.arange(len(self.labels)) // self.per_sample

    def scaled(self, temperature: float) -> Rows:
        """The same rows with their logits divided by a temperature."""
        return replace(self, logits=self.logits / np.float32(temperature))

    @property
    def nbytes(self) -> int:
        """Memory of the arrays in bytes."""
        arrays = (self.logits, self.labels, self.groups)
        return sum(each.nbytes for each in arrays if each is not None)

    def tensors(self) -> tuple[Tensor, Tensor]:
        """Copies of the logits (N, K) float32 and the labels (N,) int64 as tensors."""
        import torch

        return torch.from_numpy(self.logits.copy()), torch.from_numpy(self.labels.copy())

    def encode(self) -> bytes:
        """A Parquet file with the columns ``label`` int64 and ``logits`` list<float>[K].

        Groups are in a column ``group`` int64, numbers of rows per sample above 1 in its metadata.
        """
        import pyarrow as pa
        import pyarrow.parquet as pq

        logits = pa.FixedSizeListArray.from_arrays(self.logits.reshape(-1), self.logits.shape[1])
        columns = {"label": self.labels, "logits": logits}
        if self.groups is not None:
            columns[_GROUP] = self.groups
        table = pa.table(columns)
        if self.per_sample > 1:
            about = {_DECISIONS: str(self.decisions), _CLUSTER_SIZE: str(self.cluster_size)}
            table = table.replace_schema_metadata(about)
        buffer = io.BytesIO()
        pq.write_table(table, buffer)
        return buffer.getvalue()

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """The rows of a file of :meth:`encode`, read-only; ValueError if it is damaged."""
        import pyarrow.parquet as pq

        table = pq.ParquetFile(io.BytesIO(data)).read()  # pq.read_table would import its datasets
        try:
            columns = [table["label"].combine_chunks(), table["logits"].combine_chunks().flatten()]
            if _GROUP in table.column_names:
                columns.append(table[_GROUP].combine_chunks())
            # Their to_numpy would import pandas.
            labels, flat, *groups = map(np.from_dlpack, columns)
        except (KeyError, TypeError) as error:  # other columns, or they contain nulls
            raise ValueError(str(error)) from error
        logits = flat.reshape(len(labels), -1)
        if not np.isfinite(logits.max(axis=1)).all():
            raise ValueError("the logits are not numbers")
        for array in (logits, labels, *groups):
            array.flags.writeable = False  # several readers share them
        about = table.schema.metadata or {}
        decisions, cluster_size = (int(about.get(key, b"1")) for key in (_DECISIONS, _CLUSTER_SIZE))
        return cls(logits, labels, decisions, cluster_size, *groups)

    @classmethod
    def read(cls, folder: Folder, split: str) -> Self:
        """The rows of a trial's folder; OSError if there are none, ValueError if damaged."""
        return cls.decode(folder.read(predictions_file(split)))

    def write(self, folder: Folder, split: str) -> None:
        """Writes the file to a trial's folder."""
        folder.write(predictions_file(split), self.encode())


ReadRows = Callable[[str, int], Rows]
"""Gives the rows of a split, ``validation`` or ``test``, of the trial with a number.

Raises OSError if they cannot be read, ValueError if they are damaged.
"""


def has_rare_class(labels: Array) -> bool:
    """Whether one of several classes has less than 10 %, and less than half of an even share."""
    shares = np.bincount(labels) / len(labels)
    present = shares[shares > 0]
    return len(present) > 1 and float(present.min()) < min(_RARE, 0.5 / len(present))


def predictions_file(split: str) -> str:
    """The name of the file in a trial's folder."""
    return f"predictions_{split}.parquet"
