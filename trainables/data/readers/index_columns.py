"""Columns that only number the rows of the table that was saved."""

import re
from collections.abc import Iterable


def is_index(column: str) -> bool:
    """Whether a column has the name that a writer gives to an index without a name.

    ``to_csv`` of pandas and ``write.csv`` of R leave the name empty. pandas reads it as ``Unnamed:
    0``, and writes ``__index_level_0__`` to Parquet.
    """
    return re.fullmatch(r"|Unnamed: 0(\.\d+)*|__index_level_\d+__", column) is not None


def index_columns(columns: Iterable[str]) -> tuple[str, ...]:
    """The columns that are indexes, in order."""
    return tuple(filter(is_index, columns))
