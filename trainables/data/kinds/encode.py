"""Encodes raw samples as the rows that a trained model reads, as in training.

An export includes this file, so it imports nothing but NumPy, PyArrow for tables, and the package
tokenizers for texts that a Hugging Face tokenizer cuts.
"""

from __future__ import annotations

import re
import unicodedata
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pyarrow as pa

Rows = np.ndarray[Any, np.dtype[Any]]

PADDING, UNKNOWN = 0, 1  # indices of padding and of words outside the vocabulary
_WORD = re.compile(r"\w+(?:'\w+)*")  # of ASCII
# Thai and Lao, Burmese, Khmer, Japanese, Chinese, halfwidth Japanese, rare Chinese.
_NO_SPACES = (
    "\u0e00-\u0eff\u1000-\u109f\ua9e0-\ua9ff\uaa60-\uaa7f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff"
    "\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9f\U00020000-\U000323af"
)
NUMBER = r"^[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?$|^[-+]?(inf|Inf)$"
_ISO = r"^\s*(?P<date>\d{4}-\d{1,2}-\d{1,2})(?:[T ].*)?$"
_TEXT = "string", "large_string", "string_view"  # types of Arrow
DATE_PARTS = "year", "month", "weekday"


def encode(samples: Mapping[str, Any], raw: Any) -> Rows:
    """Encodes raw samples as rows (N, ...) for the exported program.

    Args:
        samples: ``samples`` of ``model.json``.
        raw: Tables: a data frame (pandas, polars, Arrow) with the columns of the data. Texts: a
            sequence of strings. Images: uint8, 0 to 255, (N, H, W), (N, H, W, C) or (N, C, H, W).
            Others: an array (N, ...) as in the data.

    Raises:
        TypeError: The type is wrong.
        ValueError: A column is missing, a value cannot be read, the shape or range is wrong, or
            there are no samples.
    """
    rows = _KINDS.get(samples["kind"], _array)(samples, raw)
    check_some(rows)
    return rows


def check_some(rows: Rows) -> None:
    """Raises ``ValueError`` if there are no rows."""
    if not len(rows):
        raise ValueError("there are no samples; at least one is needed")


def split_words(text: str) -> list[str]:
    """The lower-case words of a text, made of letters, digits and underscores.

    Letters include their combining marks, in NFC. Where a script has no spaces between words, such
    as Chinese, Japanese and Thai, words are pairs of neighbouring letters.
    """
    if text.isascii():
        return _WORD.findall(text.lower())
    word, part, letter = _patterns()
    found: list[str] = word.findall(unicodedata.normalize("NFC", text.lower()))
    if letter.search(text) is None:
        return found
    words: list[str] = []
    for run in (run for each in found for run in part.findall(each)):
        letters = letter.findall(run)
        words += map("".join, pairwise(letters)) if len(letters) > 1 else [run]
    return words


@lru_cache(maxsize=1)
def _patterns() -> tuple[re.Pattern[str], ...]:
    """Of a word, of its parts with or without spaces in their script, and of a letter of these."""
    codes = (*range(0x300, 0x1F000), *range(0xE0100, 0xE01F0))
    marks = "".join(chr(code) for code in codes if unicodedata.category(chr(code))[0] == "M")
    marks += "\u200c\u200d"  # joiners
    letter = rf"(?=\w)[{_NO_SPACES}][{marks}]*"
    other = rf"[^\W{_NO_SPACES}][{marks}]*"
    word, part = rf"\w[\w{marks}]*", rf"(?:{letter})+|(?:{other})+(?:'(?:{other})+)*"
    return tuple(map(re.compile, (rf"{word}(?:'{word})*", part, letter)))


def token_rows(texts: Collection[str], length: int, numbers: Mapping[str, int]) -> Rows:
    """Word indices int32 (N, L), from the number of each word of the vocabulary."""
    rows = np.full((len(texts), length), PADDING, np.int32)
    for row, text in zip(rows, texts, strict=True):
        found = [numbers.get(word, UNKNOWN) for word in split_words(text)[:length]]
        row[: len(found)] = found
    return rows


def weighted_rows(
    texts: Collection[str], length: int, numbers: Mapping[str, int], idf: Rows
) -> Rows:
    """Indices from 1 and TF-IDF weights of words, float32 (N, L, 2), the largest weights first."""
    rows = np.zeros((len(texts), length, 2), np.float32)
    for row, text in zip(rows, texts, strict=True):
        counts = Counter(numbers[word] for word in split_words(text) if word in numbers)
        found = np.fromiter(counts.keys(), np.int64, len(counts))
        times = np.fromiter(counts.values(), np.float64, len(counts))
        weights = (1 + np.log(times)) * idf[found - 1]
        weights /= max(float(np.linalg.norm(weights)), 1e-12)
        order = np.argsort(-weights, kind="stable")[:length]
        row[: len(order), 0] = found[order]
        row[: len(order), 1] = weights[order]
    return rows


def image_rows(samples: Mapping[str, Any], raw: Any) -> Rows:
    """Images (N, H, W), (N, H, W, C) or (N, C, H, W) as (N, C, H, W); see :func:`encode`."""
    images = unmasked(raw)
    channels, height, width = samples["shape"]
    if images.dtype != np.uint8:
        raise TypeError(f"images must be uint8 from 0 to 255, not {images.dtype}")
    if images.shape[1:] == (height, width) and channels == 1:
        images = images[:, None]
    elif images.shape[1:] == (height, width, channels) != (channels, height, width):
        images = images.transpose(0, 3, 1, 2)
    if images.shape[1:] != (channels, height, width):
        raise ValueError(
            f"images of shape {(channels, height, width)} (channels, height, width) are expected, "
            f"not an array of shape {images.shape}"
        )
    check_range(images, samples["mean"])
    return np.ascontiguousarray(images)


def check_range(images: Rows, mean: Sequence[float]) -> None:
    """Checks that uint8 images have the range 0 to 255, unless training images are as dark.

    ``mean`` is that of each channel in training, on the scale 0..1. ``ValueError`` if all values
    are 0 or 1, which scaled images become as integers; a warning if none is above 16.
    """
    highest, usual = int(images.max(initial=0)), 255 * max(mean)
    if not images.size or highest > 16 or usual <= highest:
        return
    if highest <= 1 < usual:
        raise ValueError(
            f"all values are 0 or 1; images must be uint8 from 0 to 255 (mean in training: "
            f"{usual:.0f}), not scaled to 0..1"
        )
    warnings.warn(
        f"the highest value is {highest}, and the mean in training is {usual:.0f}: images must be "
        "uint8 from 0 to 255",
        stacklevel=2,
    )


def level_codes(values: pa.ChunkedArray, levels: Sequence[str]) -> Rows:
    """The index of each level, from 1; 0 for missing and unknown ones."""
    import pyarrow as pa
    import pyarrow.compute as pc

    lower = [level.lower() for level in levels]
    if set(lower) == {"true", "false"} and len(lower) == 2:  # each writer has its own spelling
        values, levels = pc.utf8_lower(values), lower
    found = pc.index_in(values, value_set=pa.array(levels, pa.string()))
    codes: Rows = pc.fill_null(found, -1).to_numpy().astype(np.int64) + 1
    return codes


def table_rows(samples: Mapping[str, Any], columns: Any) -> Rows:
    """Standardised numbers, NaN if missing, and codes of levels, float32, of columns by name."""
    numbers = zip(samples["numeric"], samples["mean"], samples["std"], strict=True)
    words = zip(samples["categorical"], samples["levels"], strict=True)
    rows = [(float_array(columns[name]) - mean) / std for name, mean, std in numbers]
    rows += [level_codes(columns[name], levels) for name, levels in words]
    return np.stack(rows, 1).astype(np.float32)


def float_array(values: pa.ChunkedArray) -> Rows:
    """Numbers as float64; NaN if missing."""
    import pyarrow.compute as pc

    return np.asarray(pc.fill_null(values, float("nan")).to_numpy(), dtype=np.float64)


def as_numbers(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    """Numbers, float64; null for other texts."""
    import pyarrow.compute as pc

    trimmed = pc.utf8_trim_whitespace(texts)
    return pc.if_else(pc.match_substring_regex(trimmed, NUMBER), trimmed, None).cast("double")


def as_flags(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    """1 for true and 0 for false, in any case, or numbers; null for other texts."""
    import pyarrow.compute as pc

    lower = pc.utf8_lower(pc.utf8_trim_whitespace(texts))
    not_true = pc.if_else(pc.equal(lower, "false"), "0", lower)
    return as_numbers(pc.if_else(pc.equal(lower, "true"), "1", not_true))


def as_dates(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Dates from words; null where a word is no date."""
    import pyarrow.compute as pc

    found = pc.struct_field(pc.extract_regex(values, _ISO), "date")
    return pc.strptime(found, format="%Y-%m-%d", unit="s", error_is_null=True)


def date_features(column: str) -> list[str]:
    """Names of the features of a date column, such as ``signup.year``."""
    return [f"{column}.{part}" for part in DATE_PARTS]


def date_column(feature: str, columns: Collection[str]) -> str | None:
    """The date column of a feature; None if the feature is a column itself, or unknown."""
    column, _, part = feature.rpartition(".")
    return column if feature not in columns and part in DATE_PARTS and column in columns else None


def date_feature(feature: str, dates: pa.ChunkedArray) -> pa.ChunkedArray:
    """The numbers of a feature, float64: year, month from 1, or weekday from 0 for Monday."""
    import pyarrow.compute as pc

    parts = dict(zip(DATE_PARTS, (pc.year, pc.month, pc.day_of_week), strict=True))
    return parts[feature.rpartition(".")[2]](dates).cast("double")


def as_table(frame: Any) -> pa.Table:
    """Converts a data frame (pandas, polars, Arrow) to an Arrow table, without its index.

    Raises ``TypeError`` for another object, ``ValueError`` if a column cannot be read.
    """
    import pyarrow as pa

    if isinstance(frame, pa.Table):
        return frame
    if hasattr(frame, "to_arrow"):
        return frame.to_arrow()
    if not hasattr(frame, "columns"):
        raise TypeError(f"a data frame is expected, not a {type(frame).__name__}")
    if not all(isinstance(name, str) for name in frame.columns):
        frame = frame.rename(columns=str)
    for name, kind in frame.dtypes.items():
        if "interval" in str(getattr(getattr(kind, "categories", None), "dtype", kind)):  # pd.cut
            words = frame[name].astype("category").cat.rename_categories(str)
            frame = frame.assign(**{name: words})
    try:
        table = pa.Table.from_pandas(frame, preserve_index=False)
    except (pa.ArrowInvalid, pa.ArrowTypeError):  # values of several types in a column
        table = pa.Table.from_pandas(frame.apply(_unmixed), preserve_index=False)
    except pa.ArrowNotImplementedError as error:
        raise ValueError("; ".join(map(str, error.args))) from None
    return table.replace_schema_metadata()


def _unmixed(column: Any) -> Any:
    """A column of pandas; as text if it has values of several types, such as 7 and "7"."""
    if column.dtype != object or len({type(value) for value in column[column.notna()]}) < 2:
        return column
    return column.map(str, na_action="ignore")


def unmasked(raw: Any) -> Rows:
    """An array without masked values; ``ValueError`` if it has some."""
    if np.ma.is_masked(raw):
        raise ValueError("the array has masked values, which are missing; leave these rows out")
    return np.asarray(raw)


def _array(samples: Mapping[str, Any], raw: Any) -> Rows:
    rows = unmasked(raw)
    if rows.dtype.kind not in "biuf":
        raise TypeError(
            f"numbers (N, ...) are expected, not {rows.dtype}: samples of the kind "
            f"{samples['kind']} are encoded by the code of their data alone"
        )
    return rows.astype(np.float32) if samples["kind"] == "Arrays" else rows


def _tokens(samples: Mapping[str, Any], raw: Any) -> Rows:
    numbers = {word: number for number, word in enumerate(samples["vocabulary"], start=2)}
    return token_rows(texts_of(raw), samples["shape"][0], numbers)


def _weighted_words(samples: Mapping[str, Any], raw: Any) -> Rows:
    numbers = {word: number for number, word in enumerate(samples["vocabulary"], start=1)}
    return weighted_rows(texts_of(raw), samples["shape"][0], numbers, np.array(samples["idf"]))


def _subwords(samples: Mapping[str, Any], raw: Any) -> Rows:
    if samples.get("content") is None:
        return _array(samples, raw)
    found = _tokenizer(samples["content"]).encode_batch(texts_of(raw))
    return np.array([each.ids for each in found], np.int32).reshape(-1, *samples["shape"])


@lru_cache(maxsize=1)
def _tokenizer(content: str) -> Any:
    from tokenizers import Tokenizer

    return Tokenizer.from_str(content)


def texts_of(raw: Any) -> list[str]:
    """A list of strings; ``TypeError`` for a single one, a data frame or other things.

    ``ValueError`` for a text without a word, as in training and in ``calsweep predict``: the
    answer would not depend on it.
    """
    if isinstance(raw, str | Mapping) or hasattr(raw, "columns"):  # letters, keys, names of columns
        raise TypeError(f"a list of strings is expected, not a {type(raw).__name__}")
    texts = list(raw)
    if wrong := [text for text in texts if not isinstance(text, str)]:
        raise TypeError(f"texts must be strings, not {wrong[0]!r}")
    if empty := [row for row, text in enumerate(texts) if not split_words(text)]:
        raise ValueError(f"text {empty[0]} (from 0), {texts[empty[0]]!r}, has no word")
    return texts


def _table_rows(samples: Mapping[str, Any], raw: Any) -> Rows:
    return table_rows(samples, table_columns(samples, raw))


def table_columns(samples: Mapping[str, Any], raw: Any) -> dict[str, pa.ChunkedArray]:
    """The features in a data frame: numbers, float64, and categories, text; missing ones are null.

    Raises ``ValueError`` if a column is missing or a value cannot be read, ``TypeError`` as
    :func:`as_table`.
    """
    table, flags = as_table(raw), samples.get("flags", ())
    columns = {name: _numbers(table, name, is_flag=name in flags) for name in samples["numeric"]}
    words = {name: _column(table, name, "words") for name in samples["categorical"]}
    return columns | {name: values.cast("string") for name, values in words.items()}


def _numbers(table: pa.Table, name: str, *, is_flag: bool) -> pa.ChunkedArray:
    if (column := date_column(name, table.column_names)) is not None:
        values = _column(table, column, "dates")
        return date_feature(name, _read(column, values, as_dates, "a date such as 2026-11-24"))
    values = _column(table, name, "numbers")
    numbers = _read(name, values, as_flags if is_flag else as_numbers, "a number")
    if numbers.type == "bool":
        numbers = numbers.cast("uint8")
    numbers = numbers.cast("double", safe=False)
    if np.isinf(float_array(numbers)).any():
        raise ValueError(f"column {name!r} has an infinite number")
    return numbers


def _column(table: pa.Table, name: str, expected: str) -> pa.ChunkedArray:
    """A column by name, decoded: text, also if all its values are missing, or as expected."""
    import pyarrow as pa

    if name not in table.column_names:
        raise ValueError(f"no column {name!r}; the columns: {', '.join(table.column_names)}")
    values, types = table[name], pa.types
    if types.is_null(values.type):
        return values.cast("string")
    if types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    numbers = (types.is_boolean, types.is_integer, types.is_floating, types.is_decimal)
    tests = (types.is_date, types.is_timestamp) if expected == "dates" else numbers
    if values.type not in _TEXT and not any(test(values.type) for test in tests):
        raise ValueError(f"column {name!r} holds {values.type}, not {expected}")
    return values


def _read(
    name: str,
    values: pa.ChunkedArray,
    convert: Callable[[pa.ChunkedArray], pa.ChunkedArray],
    what: str,
) -> pa.ChunkedArray:
    """Texts as numbers or dates; ValueError if one is neither that nor missing."""
    import pyarrow.compute as pc

    if values.type not in _TEXT:
        return values
    found = convert(values.cast("string"))
    wrong = np.flatnonzero(pc.and_(values.is_valid(), found.is_null()).to_numpy())
    if len(wrong):
        more = f", as {len(wrong)} rows are not" * (len(wrong) > 1)
        raise ValueError(
            f"row {wrong[0]} (from 0): {name} is {values[wrong[0]].as_py()!r}, not {what}{more}"
        )
    return found


_KINDS: dict[str, Callable[[Mapping[str, Any], Any], Rows]] = {
    "Images": image_rows,
    "SegmentedImages": image_rows,
    "Tokens": _tokens,
    "Subwords": _subwords,
    "WeightedWords": _weighted_words,
    "TableRows": _table_rows,
}
