"""Columns that divide the rows of a file into splits: ``split``, ``group`` and ``time``."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from trainables.data.core.bad_samples import BadSamples
from trainables.data.core.divisions import (
    SPLITS,
    ByEqualRows,
    ByGroup,
    ByGroupAndTime,
    ByName,
    ByTime,
    Division,
)
from trainables.data.core.equal_rows import EQUAL_ROWS
from trainables.data.kinds.encode import as_dates
from trainables.data.labelling.groups import IN_ALL, check_apart
from trainables.data.readers.row_options import RowsOptions
from trainables.data.readers.table_columns import convert_each, is_date, numbers_of
from trainables.data.readers.tabular import TabularFiles

Divided: TypeAlias = tuple[Division | None, tuple[str, ...]]
"""A division of the training part, and a remark on it."""

_NAMES: Final = {name: split for split, names in SPLITS.items() for name in names}
_COLUMN: Final = "split"


def with_split_column(parts: Sequence[TabularFiles], options: RowsOptions) -> RowsOptions:
    """The options, with a column ``split`` that names splits, unless others divide or use it.

    Raises:
        ValueError: The first part lacks a column that is given.
    """
    rows, used = parts[0], (*options.kept, *(options.exclude or ()))
    for option, column in options.dividing.items():
        if not _together_if_equal(rows, options):
            rows.check_has(column, option, IN_ALL if option == "group" else "")
    if options.dividing or len(parts) > 1 or _COLUMN in used or not names_splits(rows, _COLUMN):
        return options
    return replace(options, split=_COLUMN)


def _together_if_equal(rows: TabularFiles, options: RowsOptions) -> bool:
    """Whether equal rows are the groups, not a column of that name."""
    return options.group == EQUAL_ROWS and EQUAL_ROWS not in rows.names


def names_splits(rows: TabularFiles, column: str) -> bool:
    """Whether a column has the words for training and for another split, and nothing else."""
    if column not in rows.names or rows.content(column, "split") != "text":
        return False
    words = rows.column(column, pa.string()).unique().to_pylist()
    splits = {_NAMES.get((word or "").strip().lower()) for word in words}
    return "train" in splits and len(splits) > 1 and None not in splits


def groups_of(rows: TabularFiles, column: str) -> npt.NDArray[np.int64]:
    """The group of each row, as numbers."""
    texts = rows.column(column, pa.string()).combine_chunks().dictionary_encode()
    return np.asarray(texts.indices.fill_null(0).to_numpy(zero_copy_only=False), np.int64)


def read_division(
    parts: Sequence[TabularFiles], bad: Sequence[BadSamples], options: RowsOptions
) -> Divided:
    """The division of the training part; None without such a column.

    Rows without a split, group or time are added to the bad samples.

    Raises:
        ValueError: The column is missing or has other values, a group is in two files, or the files
            leave nothing to divide.
    """
    if options.split is not None:
        return _by_name(parts, bad[0], options.split)
    if _together_if_equal(parts[0], options):
        return ByEqualRows(), ("rows that are equal in all features are in one split",)
    found: Divided = None, ()
    if options.group is not None:
        found = of_groups, on_groups = _by_group(parts, bad, options.group)
    if options.time is not None:
        found = of_time, on_time = _by_time(parts, bad[0], options.time)
        if options.group is not None:
            both = ByGroupAndTime(of_time.column, of_time.times, of_groups)
            return both, (*on_groups, *on_time)
    return found


def _by_name(parts: Sequence[TabularFiles], bad: BadSamples, column: str) -> Divided:
    rows = parts[0]
    if len(parts) > 1:
        raise ValueError(
            f"split={column} and the path {parts[1].option} are given; give one of them"
        )
    words = rows.column(column, pa.string()).to_pylist()
    found = [_NAMES.get((word or "").strip().lower()) for word in words]
    rule = f"which is no split; allowed: {', '.join(_NAMES)}"
    bad.add_each(
        [split is None for split in found], lambda row: f"{column} is {words[row]!r}, {rule}"
    )
    splits = np.array([split or "train" for split in found])
    sizes = ", ".join(f"{(splits == name).sum():,} {name}" for name in SPLITS)
    if not (splits == "train").any():
        raise ValueError(f"{rows.named(rows.files[0])}: split={column} names no training samples")
    return ByName(splits), (f"column {column!r} divides the rows into splits: {sizes}",)


def _by_group(
    parts: Sequence[TabularFiles], bad: Sequence[BadSamples], column: str
) -> tuple[ByGroup, tuple[str, ...]]:
    of_parts = {}
    for part in parts:
        part.check_has(column, "group", IN_ALL)
        texts = part.column(column, pa.string())
        names = np.array(pc.fill_null(texts, "").to_pylist(), np.str_)
        of_parts[part.named(part.files[0])] = names, np.asarray(texts.is_null())
    check_apart(column, of_parts, bad)
    groups = groups_of(parts[0], column)
    count = len(np.unique(groups))
    remark = f"no group of column {column!r}, of {count:,} in training files, is in two splits"
    return ByGroup(column, groups), (remark,)


def _by_time(
    parts: Sequence[TabularFiles], bad: BadSamples, column: str
) -> tuple[ByTime, tuple[str, ...]]:
    given = {rows.option for rows in parts}
    if given >= {"test", "validation"}:
        raise ValueError(f"time={column}: test and validation are given, so nothing is divided")
    values = _times(parts[0], bad, column)
    bad.add_each(values.is_null(), f"there is no time ({column} is missing)")
    times = pc.fill_null(values, 0).to_numpy()
    latest = [name for name in ("test", "validation") if name not in given]
    before = ", the latest before them the validation split" if len(latest) > 1 else ""
    return ByTime(column, times), (
        f"the latest rows by column {column!r} are the {latest[0]} split{before}",
    )


def _times(rows: TabularFiles, bad: BadSamples, column: str) -> pa.ChunkedArray:
    """Times as numbers, null where they are missing; wrong ones are added to the bad samples."""
    content = rows.content(column, "time")
    types = [file.schema.field(column).type for file in rows.files]
    if all(map(pa.types.is_integer, types)):  # maybe nanoseconds, which float64 would round
        return rows.column(column, pa.int64())
    if content in ("number", "nothing"):
        values = numbers_of(rows, column, content)
        return pc.if_else(pc.is_nan(values), pa.scalar(None, pa.float64()), values)
    if all(map(is_date, types)):
        unit = "ns" if any(getattr(each, "unit", "") == "ns" for each in types) else "us"
        return rows.column(column, pa.timestamp(unit)).cast(pa.int64())
    if content != "text" and rows.typed:
        raise ValueError(f"{rows.holds(column, 'time')}; allowed: dates, times or numbers")
    dates = convert_each(rows, column, bad, as_dates, "a date such as 2026-11-24")
    return dates.cast(pa.timestamp("us")).cast(pa.int64())
