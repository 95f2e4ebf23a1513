"""The columns of a table: which are features, and their values as numbers, dates and categories."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from trainables.data.core.bad_samples import BadSamples
from trainables.data.kinds.encode import (
    NUMBER,
    as_dates,
    as_flags,
    as_numbers,
    date_column,
    date_feature,
    date_features,
)
from trainables.data.kinds.table import Columns
from trainables.data.readers.index_columns import index_columns, is_index
from trainables.data.readers.row_options import RowsOptions
from trainables.data.readers.tabular import Content, TabularFiles
from trainables.plugins.arguments import few

_MANY_LEVELS: Final = 100
_MOSTLY: Final = 0.9
_ALMOST_ALWAYS: Final = 0.95

_MARKED_NUMBER: Final = (
    r"^[-+]?[$€£]?\s?(\d{1,3}([,.' \x{A0}\x{202F}]\d{3})+([.,]\d+)?|\d+,\d+|\d+(\.\d+)?)\s?[%$€£]?$"
)
"""A number, maybe with decimal comma, thousands separators, currency or percent sign."""


@dataclass(frozen=True)
class Features:
    """The numeric and the categorical features of a table.

    ``flags`` are the numeric ones that are true or false in training.
    """

    numeric: Sequence[str]
    categorical: Sequence[str]
    flags: Sequence[str] = ()


def choose_features(parts: list[TabularFiles], options: RowsOptions) -> Features:
    """The features; one error lists all columns that cannot be any.

    By default all columns are features except indexes and those with another use. Columns of dates
    have numeric features of their own. The first of ``parts``, the training part, decides what a
    column is.
    """
    names, dates = _feature_names(parts[0], options), options.dates or ()
    words, faults = set(options.categorical or ()), {}
    if unknown := [name for name in options.categorical or () if name not in names]:
        raise ValueError(
            f"categorical names {unknown[0]!r}, which is none of the features: {names}"
        )
    for name in names:
        try:
            if name in words or not _are_words(name, parts):
                continue
        except ValueError as error:
            faults[name] = str(error)
            continue
        words.add(name)
        if fault := _other_notation(parts[0], name):
            faults[name] = fault
    _refuse_columns(faults)
    for name in dates:
        parts[0].content(name, "dates")  # it exists
    numbers = [name for name in names if name not in words]
    flags = [name for name in numbers if parts[0].content(name, "features") == "truth"]
    numbers += [feature for name in dates for feature in date_features(name)]
    return Features(numbers, [name for name in names if name in words], flags)


def read_columns(
    rows: TabularFiles,
    bad: BadSamples,
    features: Features,
    levels: Mapping[str, Sequence[str]] | None = None,
) -> Columns:
    """The features of rows: for training, for tests, and of new rows.

    Values of numeric columns and of dates that are something else are added to the bad samples.
    Categories are text. In CSV files, ``levels`` of training are values, also if they are spelled
    like missing ones: NA.

    Raises:
        ValueError: A column is missing, or its type cannot be that of the feature.
    """
    known = set(rows.names)
    names = (*features.numeric, *features.categorical)
    wanted = [date_column(name, known) or name for name in names]
    if missing := [name for name in dict.fromkeys(wanted) if name not in known]:
        raise ValueError(
            f"{rows.named(rows.files[0])}: no column {', '.join(missing)}; its columns: "
            f"{', '.join(rows.names)}"
        )
    columns = {
        name: _numbers(rows, name, bad, is_flag=name in features.flags) for name in features.numeric
    }
    for name in features.categorical:
        columns[name] = rows.column(name, pa.string(), (levels or {}).get(name, ()))
    return Columns(pa.table(columns))


def remarks_on_columns(rows: TabularFiles, columns: Columns, features: Features) -> list[str]:
    """Sentences about training columns: left out, misread, constant, or like row numbers.

    Raises ``ValueError`` about columns of texts, identifiers or numbers in another notation, which
    are not categories.
    """
    out = [repr(name) if name else "without a name" for name in index_columns(rows.names)]
    remarks = [f"left out, as it numbers the rows: the column {', '.join(out)}"] if out else []
    faults = {}
    for name in features.categorical:
        if fault := _no_category(rows, columns.table[name], name):
            faults[name] = fault
        elif remark := _mostly_numbers(columns.table[name], name):
            remarks.append(remark)
    _refuse_columns(faults)
    numbers = [name for name in features.numeric if name in rows.names]
    names = (*numbers, *features.categorical)
    same = [name for name in names if len(columns.table[name].unique()) == 1]
    if same:
        remarks.append(
            "nothing can be learned from columns with one value, or none, in training; exclude "
            f"leaves them out: {few([repr(name) for name in same])}"
        )
    remarks += [_POSITION.format(name) for name in numbers if _gives_position(columns, name)]
    return remarks


_POSITION: Final = (
    "column {0!r} almost numbers the rows: if the rows are sorted, by class or in time, it gives "
    "the class away; exclude: [{0}] leaves it out"
)


def _feature_names(rows: TabularFiles, options: RowsOptions) -> list[str]:
    targets = options.no_features
    features, exclude, dates = options.features, options.exclude, options.dates or ()
    if features and exclude:
        raise ValueError("features and exclude are given; give one of them")
    if unknown := [name for name in exclude or () if name not in rows.names]:
        raise ValueError(
            f"exclude names {', '.join(unknown)}, no column of {rows.named(rows.files[0])}; "
            f"its columns: {', '.join(rows.names)}"
        )
    out = {*targets, *(exclude or ()), *dates}
    names = [name for name in features or rows.names if features or name not in out]
    names = [name for name in names if name not in dates and (features or not is_index(name))]
    if indexes := index_columns(names):
        raise ValueError(
            f"features names {indexes[0]!r}, which numbers the rows; if it is a feature, give the "
            "column a name"
        )
    if targets & {*names, *dates} or not (names or dates):
        raise ValueError(
            f"features={names}: give one or more columns, without those of labels, weights, groups "
            "or splits"
        )
    return names


def _are_words(name: str, parts: list[TabularFiles]) -> bool:
    """Whether a column contains words, not numbers: the first part with any value decides."""
    for rows in parts:
        found = rows.content(name, "features")
        if found in ("bytes", "other"):
            advice = (
                f"dates: [{name}] makes its year, month and weekday features"
                if is_date(rows.type(name))
                else f"if these are images, set image: {name}"
            )
            raise ValueError(
                f"{rows.holds(name)}; features must be numbers, words, or true and false; {advice}"
            )
        if found != "nothing":
            return found == "text"
    return False


def _refuse_columns(faults: dict[str, str]) -> None:
    """Raises one error about all columns that cannot be features."""
    if faults:
        left_out = f"to leave them out: exclude: [{', '.join(faults)}]"
        raise ValueError("\n".join([*faults.values(), left_out]))


def _numbers(rows: TabularFiles, name: str, bad: BadSamples, *, is_flag: bool) -> pa.ChunkedArray:
    """A numeric feature, float64; null where it is missing or bad."""
    if (column := date_column(name, rows.names)) is not None:
        return date_feature(name, _dates(rows, column, bad))
    content = rows.content(name, "features")
    if content in ("number", "truth", "nothing"):
        values = numbers_of(rows, name, content)
    elif content == "text" or not rows.typed:
        values = convert_each(rows, name, bad, as_flags if is_flag else as_numbers, "a number")
    else:
        raise ValueError(f"{rows.holds(name)}, not numbers")
    bad.add_each(np.isinf(values.to_numpy()), f"{name} is infinite")
    return values


def numbers_of(rows: TabularFiles, name: str, content: Content) -> pa.ChunkedArray:
    """A column of numbers or truth values as float64."""
    if content == "truth":
        return rows.column(name, pa.bool_()).cast(pa.uint8()).cast(pa.float64())
    return rows.column(name, pa.float64())


def _dates(rows: TabularFiles, name: str, bad: BadSamples) -> pa.ChunkedArray:
    kind, content = rows.type(name), rows.content(name, "dates")
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    dated = is_date(kind)
    if dated and rows.typed:
        return rows.column(name, kind)
    if not dated and content not in ("text", "nothing"):
        raise ValueError(
            f"{rows.holds(name, 'dates')}; allowed: dates, also as words such as 2026-11-24"
        )
    return convert_each(rows, name, bad, as_dates, "a date such as 2026-11-24")


def is_date(kind: pa.DataType) -> bool:
    """Whether values of this type are dates, maybe with times."""
    return bool(pa.types.is_date(kind) or pa.types.is_timestamp(kind))


def convert_each(
    rows: TabularFiles,
    name: str,
    bad: BadSamples,
    convert: Callable[[pa.ChunkedArray], pa.ChunkedArray],
    what: str,
) -> pa.ChunkedArray:
    """A column of text, converted; texts that cannot be are added to the bad samples."""
    texts = rows.number_texts(name)
    values = convert(texts)
    wrong = pc.and_(texts.is_valid(), values.is_null())
    bad.add_each(wrong, lambda row: f"{name} is {texts[row].as_py()!r}, not {what}")
    return values


def is_dates(values: pa.Array | pa.ChunkedArray) -> bool:
    """Whether values are dates: of a type of dates, or words such as 2026-11-24 or 2026-11-24 9:30.

    Missing values are ignored; a column without any value has no dates.
    """
    known, kind = values.drop_null(), values.type
    are_words = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    are_dates = is_date(kind) or (are_words and as_dates(known).null_count == 0)
    return len(known) > 0 and are_dates


def _matches(texts: pa.ChunkedArray, pattern: str) -> pa.ChunkedArray:
    return pc.match_substring_regex(pc.utf8_trim_whitespace(texts), pattern)


def marked_number(values: pa.ChunkedArray) -> str | None:
    """A number with marks, such as 1,234 or 12%, if almost all texts are numbers, some with marks.

    None if no value has marks, or the values are words.
    """
    known = values.drop_null()
    marked = known.filter(pc.invert(_matches(known, NUMBER)))
    alike = (_matches(each, _MARKED_NUMBER).cast(pa.float64()) for each in (known, marked))
    if not len(marked) or min(pc.mean(each).as_py() for each in alike) < _MOSTLY:
        return None
    return str(marked[0].as_py())


def _other_notation(rows: TabularFiles, name: str) -> str | None:
    """Why a column of text, whose values are numbers with marks, has no numbers."""
    if (marked := marked_number(rows.column(name, pa.string()))) is None:
        return None
    return (
        f"{rows.named(rows.files[0])}: column {name!r} has numbers that cannot be read, such as "
        f"{marked!r}: write them as 1234.5, or name the column under categorical if "
        "they are categories"
    )


def too_many_levels(count: int, rows: int) -> bool:
    """Whether so many different values are identifiers or texts, not categories."""
    return count > _MANY_LEVELS and count > rows / 2


def _no_category(rows: TabularFiles, values: pa.ChunkedArray, name: str) -> str | None:
    """Why a column of texts or identifiers is no category."""
    count = len(values.unique())
    if not too_many_levels(count, len(values)):
        return None
    if pc.all(_matches(values.drop_null(), NUMBER)).as_py():
        return (
            f"{rows.named(rows.files[0])}: column {name!r} holds {count:,} different numbers as "
            "text; store them as numbers"
        )
    return (
        f"{rows.named(rows.files[0])}: column {name!r} holds {count:,} different values in "
        f"{len(values):,} rows, too many for categories; if these are the texts to classify, set "
        f"text: {name}"
    )


def _mostly_numbers(values: pa.ChunkedArray, name: str) -> str | None:
    known = values.drop_null()
    words = known.filter(pc.invert(_matches(known, NUMBER)))
    if not len(words) or len(words) > (1 - _MOSTLY) * len(known):
        return None
    shown = few([repr(each) for each in words.unique().to_pylist()])
    return (
        f"column {name!r} is categorical because of {shown} in {len(words):,} of {len(values):,} "
        "rows; all its other values are numbers"
    )


_GIVEN_AWAY: Final = (
    "column {0!r} has one value for each class, so it gives the class away; exclude: [{0}] leaves "
    "it out"
)


def remarks_on_labels(columns: Columns, labels: npt.NDArray[Any]) -> list[str]:
    """Sentences about training columns that have one value for each class, and it alone.

    ``labels`` are classes (N,); several labels (N, L) are not compared with columns.
    """
    found: list[str] = []
    if labels.ndim > 1 or not labels.size:
        return found
    classes = len(np.unique(labels))
    for name in columns.table.column_names:
        values = columns.table[name].combine_chunks().dictionary_encode()
        if values.null_count == 0 and len(values.dictionary) == classes:
            codes = values.indices.to_numpy()
            if len(np.unique(codes * np.int64(labels.max() + 1) + labels)) == classes:
                found.append(_GIVEN_AWAY.format(name))
    return found


def _gives_position(columns: Columns, name: str) -> bool:
    """Whether a column almost always rises, or falls, or has another whole number in each row."""
    values: Any = columns.table[name].drop_null().to_numpy()
    if len(values) < max(3, len(columns) / 2):
        return False
    steps = np.diff(values)
    if max((steps > 0).mean(), (steps < 0).mean()) >= _ALMOST_ALWAYS:
        return True
    whole = bool((values == np.floor(values)).all())
    return whole and len(np.unique(values)) == len(values) >= np.ptp(values) / 2
