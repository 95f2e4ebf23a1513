"""Finds the label column of a table, and columns that cannot be features."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from trainables.data.readers.table_columns import marked_number, too_many_levels
from trainables.data.readers.tabular import content_of

LABELS: Final = ("label", "labels", "target", "class", "y", "category", "outcome", "topic")
_PARTS_OF_LABELS: Final = (*LABELS, "churn", "diagnosis", "species", "survived", "fraud")
_PREDICTED: Final = re.compile("pred", re.IGNORECASE)
_MOST_CLASSES: Final = 100  # that a column not called a label may have to be taken for one
_ID: Final = re.compile(
    r"(^|[_\s:.-])(u?u?id|identifier|idx|index|key)$|^unnamed: \d+$|[a-z]I[dD]$"
)
_GROUP_ID: Final = re.compile(r"(^|[_\s:.-])([Uu]?[Uu]?[Ii][Dd]|(?i:identifier)|key)$|[a-z]I[dD]$")
_GROUPS: Final = frozenset(
    [
        "account",
        "animal",
        "client",
        "customer",
        "household",
        "individual",
        "member",
        "patient",
        "session",
        "site",
        "student",
        "subject",
        "user",
    ]
)
_FEWEST_GROUPS: Final = 10
_FEWEST_IDS: Final = 20
_ROWS_PER_GROUP: Final = 1.2
_SPLITS: Final = 3
_DATE: Final = re.compile(r"\d{4}-\d\d?-\d\d?([T ].*)?|\d\d?[/.]\d\d?[/.]\d{2,4}( .*)?")
_LOOKED_AT: Final = 100  # values to check for dates


def label_column(table: pa.Table) -> str | None:
    """The label column: found by its name, else the last column with few classes."""
    possible: list[str] = [n for n in table.column_names if _could_be_label(table[n])]
    by_lower = {name.lower(): name for name in possible}
    for name in LABELS:
        if name in by_lower:
            return by_lower[name]
    divisible = [name for name in reversed(possible) if _has_classes(table[name])]
    divisible.sort(key=lambda name: bool(_PREDICTED.match(name)))
    for word in _PARTS_OF_LABELS:
        for name in divisible:
            if word in re.split(r"[^a-z]+", name.lower()):
                return name
    complete = (name for name in divisible if not table[name].null_count)
    return next(complete, next(iter(divisible), None))


def unusable_columns(table: pa.Table, names: Sequence[str]) -> dict[str, str]:
    """Columns that cannot be features, each with the reason."""
    reasons = {name: _why_not(name, table[name].combine_chunks()) for name in names}
    return {name: reason for name, reason in reasons.items() if reason is not None}


def group_column(table: pa.Table, names: Sequence[str], label: str) -> str | None:
    """A column of repeated ids, such as customers or patients; None if there is none.

    Each class is in at least three groups, one for each split.
    """
    return next((name for name in names if _is_group(table, name, label)), None)


def _is_group(table: pa.Table, name: str, label: str) -> bool:
    parts = set(re.split(r"[^a-z]+", name.lower()))
    if not (_GROUP_ID.search(name) or _GROUPS & parts):
        return False
    column = table[name]
    if content_of(column.type) != "text" and not pa.types.is_integer(column.type):
        return False
    rows, groups = len(column) - column.null_count, pc.count_distinct(column).as_py()
    if column.null_count or groups < _FEWEST_GROUPS or rows < _ROWS_PER_GROUP * groups:
        return False
    pairs = pa.table({"group": column, "label": table[label]}).drop_null()
    in_groups = pairs.group_by("label").aggregate([("group", "count_distinct")])
    return bool(pc.min(in_groups["group_count_distinct"]).as_py() >= _SPLITS)


def _could_be_label(column: pa.ChunkedArray) -> bool:
    kind = column.type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if content_of(kind) not in ("text", "truth") and not _is_whole(column):
        return False
    return bool(2 <= pc.count_distinct(column).as_py() <= len(column) // 2)


def _has_classes(column: pa.ChunkedArray) -> bool:
    """Whether values may be labels of few classes, each in all splits."""
    counts = pc.value_counts(column.drop_null().combine_chunks())
    if column.null_count > len(column) / 2:
        return False
    if len(counts) > _MOST_CLASSES or pc.min(counts.field("counts")).as_py() < _SPLITS:
        return False
    values = set(counts.field("values").to_pylist()) if _is_whole(column) else {0}
    return min(values) >= 0 or values == {-1, 1}


def _is_whole(column: pa.ChunkedArray) -> bool:
    """Whether values are whole numbers, also 1.0, as pandas writes them if some are missing."""
    if not pa.types.is_floating(column.type):
        return bool(pa.types.is_integer(column.type))
    return bool(pc.all(pc.equal(pc.floor(column), column)).as_py())


def _why_not(name: str, column: pa.Array) -> str | None:
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    kind, values = column.type, column.drop_null()
    content = content_of(kind)
    if content in ("bytes", "other") and not pa.types.is_temporal(kind):
        return f"holds {kind}"
    distinct = len(values.unique())
    if distinct + (column.null_count > 0) < 2:  # a ticked box is a word, or missing
        return "constant"
    if pa.types.is_temporal(kind):
        return "dates"
    if content == "text":
        return _why_no_words(values, distinct, len(column))
    if pa.types.is_integer(kind) and distinct == len(column):
        ends = pc.min_max(values).as_py()
        if _ID.search(name) or _ID.search(name.lower()) or ends["max"] - ends["min"] < distinct:
            return "numbers of the rows"
    return None


def _why_no_words(values: pa.Array, distinct: int, rows: int) -> str | None:
    if all(_DATE.fullmatch(v.strip()) for v in values[:_LOOKED_AT].to_pylist()):
        return "dates"
    if (marked := marked_number(pa.chunked_array([values]))) is not None:
        return f"numbers such as {marked!r}, to be written as 1234.5"
    if too_many_levels(distinct, rows):
        return "ids or free text, different in most rows"
    if distinct == rows >= _FEWEST_IDS:
        return "ids or free text, different in all rows"
    return None
