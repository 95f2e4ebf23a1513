"""Rows of two files are the same samples by their ids, not by their places."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sweeps.errors import UserError
from sweeps.judging import names
from sweeps.judging.classes import canonical, texts
from sweeps.judging.proposals import is_count
from sweeps.judging.tables import Table
from trainables.contract.metric_names import FEWEST_CLUSTERS
from trainables.data.readers.index_columns import is_index

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Rows:
    """Rows of a file; `used` are columns that are scores or labels, so they are no ids."""

    table: Table
    count: int | None = None
    used: frozenset[str] = frozenset()

    def ids(self, name: str) -> Array | None:
        """A column that may tell samples apart, as text (N,)."""
        if name in (*self.used, *names.CLASS_NAMES) or self.table.names.count(name) != 1:
            return None
        values = self.table.readable(name)
        if (
            values is None
            or values.ndim != 1
            or self.count not in (None, len(values))
            or values.dtype.kind not in "iuUSb"
        ):
            return None
        if values.dtype.kind in "iu":
            return texts(values)
        words, inverse = np.unique(texts(values), return_inverse=True)
        return np.array([canonical(each) for each in words.tolist()])[inverse]


def rows_by_id(
    ours: Rows, theirs: Rows, asked: str | None, *, repeated: bool = False
) -> tuple[str, Array] | None:
    """The column of ids that both files have, and the row of theirs for each row of ours.

    Ids are unique in theirs; in ours, of which theirs are the labels, they may be `repeated`. None
    if no column is such an id, or if rows are in the same order; `asked` names the column, or is
    empty if there is none.

    Raises:
        UserError: The ids of the two files are not the same.
    """
    if asked == "":
        return None
    differ: list[str] = []
    for name, mine, other in _unique_in_both(ours, theirs, asked, repeated=repeated):
        certain = bool(asked) or _is_id(name, ours.table)
        if differ and not certain:
            break
        if np.array_equal(mine, other):
            return None
        if {*mine.tolist()} == {*other.tolist()}:
            if certain or repeated or not is_count(np.sort(other.astype(np.float64))):
                order = other.argsort()
                return name, order[np.searchsorted(other, mine, sorter=order)]
        elif (certain or repeated) and _identifies(name, mine, other):
            differ.append(_missing(name, ours.table, theirs.table, mine, other))
    if differ:
        raise UserError(differ[0])
    return None


def _unique_in_both(
    ours: Rows, theirs: Rows, asked: str | None, *, repeated: bool
) -> Iterator[tuple[str, Array, Array]]:
    """Columns that may be ids, with their values."""
    for name in [asked] if asked else _in_common(ours.table, theirs.table):
        mine, other = ours.ids(name), theirs.ids(name)
        if mine is None or other is None:
            if asked:
                raise UserError("is no column of ids in both files", "id", name)
        elif all(
            len(np.unique(each)) == len(each) for each in (other, *([] if repeated else [mine]))
        ):
            yield name, mine, other


def _in_common(ours: Table, theirs: Table) -> list[str]:
    """Columns of both files: ids by their name first, then words, numbers of rows, other numbers.

    Other numbers are ids if both files have the same ones; but 0, 1, … may be ranks.
    """
    both = [each for each in ours.names if each in theirs.names]
    return sorted(
        both, key=lambda name: (not _is_id(name, ours), is_index(name), not names.is_id(name))
    )


def _is_id(name: str, table: Table) -> bool:
    return bool(names.is_id(name) or is_index(name) or table.words(name))


def _identifies(name: str, mine: Array, other: Array) -> bool:
    """Whether ids that differ are other samples: an index that was reset identifies nothing."""
    if is_index(name):
        numbers = [each.astype(np.float64) for each in (mine, other) if _are_numbers(each)]
        return not any(is_count(each) for each in numbers)
    return names.is_id(name) or bool(np.isin(mine, other).any())


def _are_numbers(words: Array) -> bool:
    return all(each.lstrip("-").isdecimal() for each in words.tolist())


def _missing(name: str, ours: Table, theirs: Table, mine: Array, other: Array) -> str:
    table, absent = theirs, mine[~np.isin(mine, other)]
    if not len(absent):
        table, absent = ours, other[~np.isin(other, mine)]
    return (
        f"{ours.path} and {theirs.path} have different samples: {len(absent):,} values of "
        f"{name!r} are missing in {table.path}, the first is {str(absent[0])!r}. If {name!r} is no "
        'id, name the one that is: `id=NAME`, or `id=""` for rows in the same order'
    )


def repeated_ids(rows: Rows) -> tuple[str, Array] | None:
    """The column whose ids occur in several rows, the one with the fewest values if there are more.

    Rows of a few ids only are no sample of ids, so these are no clusters.
    """
    found = []
    for name in filter(names.is_id, rows.table.visible):
        ids = rows.ids(name)
        if ids is not None and FEWEST_CLUSTERS <= (count := len(np.unique(ids))) < len(ids):
            found.append((count, name, ids))
    return None if not found else min(found, key=lambda each: each[0])[1:]
