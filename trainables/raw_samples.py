"""New samples, as they lie in files, as rows of a kind of sample that a model was trained on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import numpy as np

from trainables.data.image_folder import SUFFIXES
from trainables.data.images import decode_images
from trainables.data.rows import Rows, open_rows
from trainables.data.samples import Arrays, Images, Inputs, Samples, SegmentedImages
from trainables.data.subwords import Subwords
from trainables.data.table import Columns, TableRows
from trainables.data.tokens import Tokens

_KINDS: Final[dict[str, Any]] = {
    kind.__name__: kind for kind in (Images, SegmentedImages, Arrays, Tokens, Subwords, TableRows)
}


def describe_samples(samples: Samples) -> dict[str, Any]:
    """What samples are, for JSON; of a kind that is none of ours its name and shape alone."""
    kind = type(samples).__name__
    if kind not in _KINDS:
        return {"kind": kind, "shape": list(samples.shape)}
    return {"kind": kind, **asdict(samples)}  # type: ignore[call-overload]


def samples_of(described: dict[str, Any]) -> Samples:
    """What :func:`describe_samples` described.

    Raises:
        ValueError: It is none of our kinds.
    """
    values = dict(described)
    kind = values.pop("kind")
    if kind not in _KINDS:
        raise ValueError(f"samples are {kind}, which only the user's own code can read")
    samples: Samples = _KINDS[kind](**{name: _tuples(value) for name, value in values.items()})
    return samples


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def read_raw(samples: Samples, path: Path, column: str | None = None) -> tuple[Inputs, list[str]]:
    """Rows for a model, with what each is called.

    Args:
        samples: What it was trained on.
        path: Images: a file or a folder of them. Arrays (also uint8 images): ``.npy``, samples
            along the first axis. Texts and tables: ``.csv`` or ``.parquet``.
        column: Of the texts.

    Raises:
        OSError: There is nothing, or it cannot be read.
        ValueError: It does not fit what the model was trained on; says what does.
        TypeError: Likewise.
    """
    if not path.exists():
        raise FileNotFoundError(f"{path}: there is no such file or folder")
    if isinstance(samples, Images) and path.suffix != ".npy":
        return _images(samples, path)
    if isinstance(samples, Images | Arrays):
        rows = _array(samples, path)
        return rows, [str(row) for row in range(len(rows))]
    raw = _table(samples, path, column)
    encoded = samples.encode(raw)
    assert isinstance(encoded, np.ndarray)
    samples.check(encoded)
    return encoded, [str(row) for row in range(len(encoded))]


def _images(samples: Images, path: Path) -> tuple[Inputs, list[str]]:
    files = [path]
    if path.is_dir():
        files = sorted(file for file in path.rglob("*") if file.suffix.lower() in SUFFIXES)
    if not files or files[0].suffix.lower() not in SUFFIXES:
        raise ValueError(f"{path}: no image; allowed: {', '.join(SUFFIXES)} and .npy")
    channels, height, width = samples.shape
    images = decode_images(
        (file.read_bytes() for file in files),
        len(files),
        image_size=height if height == width else None,
        where=lambda index: str(files[index]),
    )
    if images.shape[1] < channels:
        images = np.repeat(images, channels, axis=1)
    if images.shape[1:] != samples.shape:
        raise ValueError(f"{path}: {samples} are wanted, not of shape {images.shape[1:]}")
    return images, list(map(str, files))


def _array(samples: Samples, path: Path) -> Inputs:
    if path.suffix != ".npy":
        raise ValueError(f"{path}: {samples} are read from .npy files")
    rows: Inputs = np.ascontiguousarray(np.load(path, allow_pickle=False))
    if isinstance(samples, Arrays):
        rows = rows.astype(np.float32, copy=False)
    samples.check(rows)
    return rows


def _table(samples: Samples, path: Path, column: str | None) -> Any:
    import pyarrow as pa

    if path.suffix not in (".csv", ".parquet"):
        raise ValueError(f"{path}: {samples} are read from .csv and .parquet files")
    rows = open_rows("csv" if path.suffix == ".csv" else "parquet", "data", str(path))
    if isinstance(samples, TableRows):
        _check_columns(rows, path, (*samples.numeric, *samples.categorical))
        columns = {name: rows.column(name, pa.float64()) for name in samples.numeric}
        columns |= {name: rows.column(name, pa.string()) for name in samples.categorical}
        return Columns(pa.table(columns))
    assert column is not None
    _check_columns(rows, path, (column,))
    texts = rows.column(column, pa.string()).to_pylist()
    return np.array([text or "" for text in texts], dtype=object)


def _check_columns(rows: Rows, path: Path, wanted: Sequence[str]) -> None:
    known = rows.files[0].schema.names
    missing = [name for name in wanted if name not in known]
    if missing:
        raise ValueError(f"{path}: no column {', '.join(missing)}; its columns: {', '.join(known)}")
