"""Raw samples of a trained model: read from files, encoded, and described for an export."""

from collections.abc import Mapping
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import numpy as np
import pyarrow as pa

from trainables.data.core.bad_samples import BadSamples, OnBadSample, settle
from trainables.data.core.samples import Samples
from trainables.data.core.types import Inputs
from trainables.data.kinds import encode as encoding
from trainables.data.kinds.arrays import Arrays, Images, SegmentedImages
from trainables.data.kinds.encode import date_features, image_rows
from trainables.data.kinds.subwords import Subwords
from trainables.data.kinds.table import TableRows
from trainables.data.kinds.tokens import Tokens, WeightedWords
from trainables.data.readers.arrays import load_arrays
from trainables.data.readers.files import TABLES_SHOWN, form_of
from trainables.data.readers.image_folder import SUFFIXES, images_below
from trainables.data.readers.images import decode_images
from trainables.data.readers.row_kinds import read_embeddings, read_texts
from trainables.data.readers.storing import read_file
from trainables.data.readers.table_columns import Features, read_columns
from trainables.data.readers.tabular import TabularFiles, open_tabular
from trainables.plugins.arguments import few

RawForm: TypeAlias = Literal["table", "texts", "images", "rows"]
"""A data frame with named columns; strings; uint8 images; or the rows of the program."""

ENCODE_FILE: Final = "encode.py"

_KINDS: Final[dict[str, Any]] = {
    kind.__name__: kind
    for kind in (Images, SegmentedImages, Arrays, Tokens, Subwords, WeightedWords, TableRows)
}


def describe_samples(samples: Samples) -> dict[str, object]:
    """The kind of sample as JSON-serialisable data; for a custom kind only its name and shape."""
    kind = type(samples).__name__
    if kind not in _KINDS:
        return {"kind": kind, "shape": list(samples.shape)}
    described = {"kind": kind, **asdict(samples)}  # type: ignore[call-overload]
    if isinstance(samples, Subwords):
        described["content"] = samples.content()
    described.pop("scores", None)  # of tables; the network has them
    return described


def samples_of(described: Mapping[str, Any]) -> Samples:
    """The kind of sample from such a description; ``ValueError`` if it is not built in."""
    values = dict(described)
    kind = values.pop("kind")
    values.pop("content", None)  # of a tokenizer, which its name finds
    if kind not in _KINDS:
        raise ValueError(f"samples are {kind}, which only the user's own code can read")
    samples: Samples = _KINDS[kind](**{name: _tuples(value) for name, value in values.items()})
    return samples


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def read_raw(
    samples: Samples,
    path: Path,
    column: str | None = None,
    on_bad_sample: OnBadSample = "error",
    id_column: str | None = None,
) -> tuple[Inputs, list[str], tuple[str, ...]]:
    """Rows for a model, their names, and notes about skipped samples and unknown categories.

    Images are read from a file or a folder of files; arrays (also uint8 images) from ``.npy``, with
    samples along the first axis; texts (in ``column``) and tables from files such as ``.csv``.
    Their names are in ``id_column``; by default they are numbers, or the files of images.

    Raises:
        OSError: The file does not exist, or is unreadable.
        ValueError: The samples do not match the model; the message says what does.
        TypeError: The samples have a wrong type; the message says which is right.
    """
    if not path.exists():
        raise FileNotFoundError(f"{path}: there is no such file or folder")
    if id_column is not None and form_of(path.name) is None:
        raise ValueError(f"{path}: only {TABLES_SHOWN} files have a column {id_column!r}")
    names: list[str] | None = None
    unseen: tuple[str, ...] = ()
    if isinstance(samples, Images) and path.suffix != ".npy":
        rows, names, bad = _images(samples, path)
    elif form_of(path.name) is not None and not isinstance(samples, Images):
        table = open_tabular("data", path)
        bad = BadSamples(table.count, table.where)
        rows, unseen = _rows_of_table(samples, table, bad, column)
        if id_column is not None:
            table.content(id_column, "id")  # it exists
            names = table.column(id_column, pa.string()).fill_null("").to_pylist()
    elif isinstance(samples, Images | Arrays):
        rows = _array(samples, path)
        bad = BadSamples(len(rows), lambda row: f"{path}, row {row} (from 0)")
    else:
        raise ValueError(f"{path}: {samples} are read from {TABLES_SHOWN} files")
    if isinstance(samples, Arrays):
        wrong = ~np.isfinite(rows).reshape(len(rows), -1).all(1)
        bad.add_each(wrong, "a number is infinite or not a number")
    notes = settle([bad], on_bad_sample, skip="--on-bad-sample skip")
    names = list(map(str, range(len(rows)))) if names is None else names
    good = bad.good()
    return rows[good], [names[row] for row in good], (*notes, *unseen)


def _rows_of_table(
    samples: Samples, table: TabularFiles, bad: BadSamples, column: str | None
) -> tuple[Inputs, tuple[str, ...]]:
    """Rows for a model, with the checks of training, and notes on values."""
    if isinstance(samples, Arrays):
        rows = read_embeddings(table, bad, column or "embedding")
        if rows.shape[1:] != samples.shape:
            where = table.files[0].path
            raise ValueError(f"{where}: {len(rows[0])} numbers in a row; the model takes {samples}")
        return rows, ()
    if isinstance(samples, TableRows):
        features = Features(samples.numeric, samples.categorical, samples.flags)
        levels = dict(zip(samples.categorical, samples.levels, strict=True))
        raw: Any = read_columns(table, bad, features, levels)
    else:
        assert column is not None
        raw = read_texts(table, bad, column)
    encoded = samples.encode(raw)
    assert isinstance(encoded, np.ndarray)
    samples.check(encoded)
    return encoded, (*_missing(samples, raw), *samples.unseen(raw))


def _missing(samples: Samples, raw: Any) -> tuple[str, ...]:
    """A note on missing values of a table, except of numbers that were missing in training too."""
    if not isinstance(samples, TableRows):
        return ()
    usual = {name for name, each in zip(samples.numeric, samples.has_missing, strict=True) if each}
    names = [name for name in raw.table.column_names if name not in usual]
    counts = {name: raw.table[name].null_count for name in names}
    found = [f"{name} in {count:,}" for name, count in counts.items() if count]
    return (f"missing values: {few(found)} of {len(raw):,} rows",) if found else ()


def _images(samples: Images, path: Path) -> tuple[Inputs, list[str], BadSamples]:
    files = images_below(path) if path.is_dir() else [path]
    if not files or files[0].suffix.lower() not in SUFFIXES:
        raise ValueError(f"{path}: no image; allowed: {', '.join(SUFFIXES)} and .npy")
    channels, height, width = samples.shape
    names = list(map(str, files))
    bad = BadSamples(len(files), names.__getitem__)
    image_size = height if height == width else None
    images = decode_images(lambda: map(read_file, files), bad, image_size, (height, width))
    if len(images) and images.shape[1] < channels:
        images = np.repeat(images, channels, axis=1)
    if len(images) and images.shape[1] > channels:
        coloured = (images != images[:, :1]).any((1, 2, 3))
        bad.add_each(coloured, "an image in colour, while the model is for greyscale images")
        images = images[:, :1]
    return images, names, bad


def _array(samples: Samples, path: Path) -> Inputs:
    if path.suffix != ".npy":
        raise ValueError(f"{path}: {samples} are read from .npy files")
    rows: Inputs = np.ascontiguousarray(load_arrays(str(path), path))
    if isinstance(samples, Images):
        rows = image_rows(vars(samples), rows)
    elif isinstance(samples, Arrays):
        rows = rows.astype(np.float32, copy=False)
    samples.check(rows)
    return rows


def raw_form(samples: Samples) -> RawForm:
    """What ``encode.py`` reads for this kind of sample."""
    if isinstance(samples, TableRows):
        return "table"
    if isinstance(samples, Tokens | WeightedWords):
        return "texts"
    if isinstance(samples, Subwords):
        return "rows" if samples.content() is None else "texts"
    return "images" if isinstance(samples, Images) else "rows"


def needed_packages(samples: Samples) -> list[str]:
    """What ``encode.py`` needs for this kind of sample."""
    if isinstance(samples, TableRows):
        return ["numpy", "pyarrow"]
    if isinstance(samples, Subwords) and raw_form(samples) == "texts":
        return ["numpy", f"tokenizers=={version('tokenizers')}"]
    return ["numpy"]


def encode_code() -> bytes:
    """The content of ``encode.py``; see :func:`needed_packages`."""
    return Path(encoding.__file__).read_bytes()


def columns_of(samples: TableRows) -> list[str]:
    """The columns of a data frame that the classifier reads."""
    bases = {name: name.rpartition(".")[0] for name in samples.numeric}
    dates = {base for base in bases.values() if {*date_features(base)} <= {*samples.numeric}} - {""}
    names = [base if base in dates else name for name, base in bases.items()]
    return list(dict.fromkeys([*names, *samples.categorical]))


def raw_example(samples: Samples, rows: Inputs) -> Any:
    """Raw samples like these rows: columns by name, strings, or an array; None with dates."""
    if isinstance(samples, TableRows):
        return _table(samples, rows)
    if isinstance(samples, Subwords) and raw_form(samples) == "texts":
        return [samples.shown(row) for row in rows]
    if isinstance(samples, Tokens | WeightedWords):
        return [" ".join(samples.vocabulary[:5]) or "text"] * len(rows)
    return rows


def _table(samples: TableRows, rows: Inputs) -> dict[str, list[Any]] | None:
    if columns_of(samples) != [*samples.numeric, *samples.categorical]:
        return None
    numbers = zip(samples.numeric, samples.mean, samples.std, rows.T, strict=False)
    found = {
        # A whole number gets its value back, in spite of float32.
        name: [float(f"{value:.7g}") for value in column.astype(float) * std + mean]
        for name, mean, std, column in numbers
    }
    codes = rows[:, len(samples.numeric) :].astype(int).T
    words = zip(samples.categorical, samples.levels, codes, strict=True)
    return found | {
        name: [levels[code - 1] if code else None for code in column]
        for name, levels, column in words
    }
