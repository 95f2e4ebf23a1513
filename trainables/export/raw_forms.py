"""The form of raw samples that an exported classifier reads, and an example of it."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from trainables.data.core.samples import Samples
from trainables.data.core.types import Inputs
from trainables.data.kinds import encode as encoding
from trainables.data.kinds.encode import date_features
from trainables.data.kinds.samples import Images
from trainables.data.kinds.subwords import Subwords
from trainables.data.kinds.table import TableRows
from trainables.data.kinds.words import Tokens, WeightedWords

RawForm: TypeAlias = Literal["table", "texts", "images", "rows"]
"""A data frame with named columns; strings; uint8 images; or the rows of the program."""

ENCODE_FILE: Final = "encode.py"


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
    names: list[str] = []
    for feature in samples.numeric:
        base = feature.rpartition(".")[0]
        is_date = base and set(date_features(base)) <= set(samples.numeric)
        names.append(base if is_date else feature)
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
