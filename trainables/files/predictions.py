"""Reads and writes the predictions of a trial on a split, without torch.

Importing torch takes longer than drawing a whole report from such files.
"""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

Array = npt.NDArray[Any]

_DECISIONS, _CLUSTER_SIZE = b"decisions", b"cluster_size"


def encode_predictions(
    logits: Array, labels: Array, decisions: int = 1, cluster_size: int = 1
) -> bytes:
    """A Parquet file with the columns ``label`` int64 and ``logits`` list<float>[K].

    ``logits`` are (N, K) float32, ``labels`` (N,) int64. ``decisions`` consecutive rows of a sample
    are different decisions, or ``cluster_size`` rows are similar, such as pixels.
    """
    columns = {
        "label": labels,
        "logits": pa.FixedSizeListArray.from_arrays(logits.reshape(-1), logits.shape[1]),
    }
    buffer = io.BytesIO()
    table = pa.table(columns)
    if max(decisions, cluster_size) > 1:
        about = {_DECISIONS: str(decisions), _CLUSTER_SIZE: str(cluster_size)}
        table = table.replace_schema_metadata(about)
    pq.write_table(table, buffer)
    return buffer.getvalue()


def decode_predictions(data: bytes) -> tuple[Array, Array]:
    """Logits (N, K) float32 and labels (N,) int64 from a file of :func:`encode_predictions`.

    Raises ``ValueError`` if it is damaged, ``KeyError`` if it has other columns.
    """
    table = pq.ParquetFile(io.BytesIO(data)).read()  # pq.read_table would import its datasets
    columns = table["label"].combine_chunks(), table["logits"].combine_chunks().flatten()
    try:
        labels, flat = map(np.from_dlpack, columns)  # their to_numpy would import pandas
    except TypeError as error:  # the columns contain nulls
        raise ValueError(str(error)) from error
    logits = flat.reshape(len(labels), -1)
    if not np.isfinite(logits.max(axis=1)).all():
        raise ValueError("the logits are not numbers")
    return logits, labels


def layout_of(data: bytes) -> tuple[int, int]:
    """``decisions`` and ``cluster_size`` of a file of :func:`encode_predictions`."""
    metadata = pq.ParquetFile(io.BytesIO(data)).schema_arrow.metadata or {}
    return int(metadata.get(_DECISIONS, b"1")), int(metadata.get(_CLUSTER_SIZE, b"1"))
