"""Tables in one or more files, or in memory: read by column, and named in messages."""

from bisect import bisect_right
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate
from typing import Any, Final, Literal

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import fs

from trainables.data.readers.delimited import MISSING_NUMBERS, open_delimited, with_points
from trainables.data.readers.files import TABLES, TABLES_SHOWN, Form, PathOrUri, find_files, form_of
from trainables.data.readers.tabular_file import (
    File,
    file_of,
    open_arrow,
    open_json_lines,
    open_parquet,
    without_views,
)
from trainables.plugins.arguments import did_you_mean

Content = Literal["number", "text", "truth", "bytes", "nothing", "other"]
"""The content of a column; ``nothing`` if all values are missing."""

_OPEN: Final = {
    "csv": open_delimited,
    "parquet": open_parquet,
    "jsonl": open_json_lines,
    "arrow": open_arrow,
}

_LARGE: Final = (
    "; larger integers are not exact as floating-point numbers: if they are codes, name the column "
    "under categorical, or leave it out (exclude: [{}])"
)


def open_tabular(
    option: str, path: PathOrUri, form: Form | None = None, *, names_needed: bool = True
) -> "TabularFiles":
    """Opens the files at a path; see :func:`~trainables.data.readers.files.find_files`.

    Args:
        option: The option with the path, for messages; empty without one.
        path: A file, a folder or a pattern.
        form: The form of the files; None decides by the suffix of a single file.
        names_needed: Whether the first line of CSV files must name the columns.

    Raises:
        FileNotFoundError: There is no file.
        ValueError: A file cannot be read or is in another form, there are no rows, or the first
            line does not name the columns.
    """
    before = f"{option}=" if option else ""
    suffixes = TABLES[form] if form else tuple(end for ends in TABLES.values() for end in ends)
    source, paths = find_files(option or "file", path, suffixes)
    files = []
    for name in paths:
        found = form_of(name)
        if form is None and found is None:
            raise ValueError(f"{before}{name} is no table; allowed: {TABLES_SHOWN}")
        if None not in (form, found) and form != found:
            raise ValueError(f"{before}{name} is read by dataset.name: {found}, not by {form}")
        files.append(_OPEN[form or found or "csv"](f"{before}{name}", source, name))
    form = form or form_of(paths[0])
    tables = TabularFiles(option, source, tuple(files), typed=form != "csv")
    if tables.count == 0:
        raise ValueError(f"{before}{path} has no rows")
    if names_needed:
        tables.check_header()
    return tables


def tabular_of(table: pa.Table) -> "TabularFiles":
    """The rows of a table in memory."""
    return TabularFiles("samples", fs.LocalFileSystem(), (file_of("", table),))


@dataclass(frozen=True)
class TabularFiles:
    """The rows of one or more files, numbered consecutively.

    ``option`` is the name of the option with their path, for messages. Columns are ``typed`` in
    all forms but CSV, which contains text: there the type of a column is a guess from its values,
    which may differ from file to file.
    """

    option: str
    source: fs.FileSystem
    files: tuple[File, ...]
    typed: bool = True

    @cached_property
    def count(self) -> int:
        """Number of rows."""
        return sum(file.count for file in self.files)

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """The number of the first row of each file."""
        return tuple(accumulate((file.count for file in self.files[:-1]), initial=0))

    @property
    def names(self) -> list[str]:
        """Columns of all files, each once."""
        return list(dict.fromkeys(name for file in self.files for name in file.schema.names))

    def named(self, file: File) -> str:
        """Names a file, for messages."""
        if not file.path:
            return "the data frame"
        return f"{self.option}={file.path}" if self.option else file.path

    def where(self, row: int) -> str:
        """Names a row, for messages."""
        place = bisect_right(self.starts, row) - 1
        return f"{self.named(self.files[place])}, row {row - self.starts[place]} (from 0)"

    def folder(self, row: int) -> str:
        """The folder of the file that contains a row."""
        return self.files[bisect_right(self.starts, row) - 1].path.rpartition("/")[0]

    def content(self, column: str, option: str) -> Content:
        """The kind of values in a column.

        If it differs between files, it is text in CSV files, and else a ``ValueError``.
        """
        self.check_has(column, option)
        found: dict[Content, File] = {}
        for file in self.files:
            found.setdefault(content_of(file.schema.field(column).type), file)
        found.pop("nothing", None)
        if len(found) < 2:
            return next(iter(found), "nothing")
        if not self.typed:
            return "text"
        (first, there), (other, here) = list(found.items())[:2]
        raise ValueError(
            f"{self.named(here)}: column {column!r} holds {other}, while in {there.path} it holds "
            f"{first}"
        )

    def check_header(self) -> None:
        """Raises ``ValueError`` if a file holds numbers where the names of columns are expected."""
        if without := [file for file in self.files if not file.header]:
            raise ValueError(
                f"{self.named(without[0])} has no header: its first line holds values; add a line "
                "with the names of the columns"
            )

    def check_has(self, column: str, option: str = "", advice: str = "") -> None:
        """Raises ``ValueError``, which ends with the advice, unless each file has it once."""
        of = f" (option {option})" if option else ""
        for file in self.files:
            names, where = file.schema.names, self.named(file)
            if column not in names:
                raise ValueError(
                    f"{where} has no column {column!r}{of}{did_you_mean(column, names)}; its "
                    f"columns: {', '.join(names)}{advice}"
                )
            if (number := names.count(column)) > 1:
                raise ValueError(
                    f"{where} has {number} columns called {column!r}; rename all but one"
                )

    def type(self, column: str) -> pa.DataType:
        """The type of a column in the first file."""
        return self.files[0].schema.field(column).type

    def holds(self, column: str, option: str | None = None) -> str:
        """The beginning of a message about the type of a column, and the option that names it."""
        named = f" (option {option})" if option else ""
        place = self.named(self.files[0])
        return f"{place}: column {column!r}{named} holds {self.type(column)}"

    def column(self, name: str, kind: pa.DataType, known: Collection[str] = ()) -> pa.ChunkedArray:
        """A whole column as one type; ``ValueError`` if a value does not fit.

        Text of CSV files is that of the file: 007 and 3.10, not 7 and 3.1. There, ``known`` texts
        are not missing, although they are spelled like missing values.
        """
        self.check_has(name)
        chunks: list[pa.Array] = []
        for file in self.files:
            texts = file.texts if kind == pa.string() else None
            for chunk in texts(name, known) if texts else file.read(name):
                coded = pa.types.is_dictionary(chunk.type)
                try:
                    chunks.append((chunk.dictionary_decode() if coded else chunk).cast(kind))
                except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
                    large = pa.types.is_integer(chunk.type) and pa.types.is_floating(kind)
                    advice = _LARGE.format(name) if large else ""
                    raise ValueError(
                        f"{self.named(file)}: column {name!r}: {error}{advice}"
                    ) from error
        return pa.chunked_array(chunks, kind)

    def as_it_is(self, name: str) -> pa.ChunkedArray:
        """A whole column; where the types of files differ, as float64, or as text in CSV files."""
        kinds = {file.schema.field(name).type for file in self.files} - {pa.null()}
        content = self.content(name, "")
        if len(kinds) > 1 and content == "number":
            return self.column(name, pa.float64())
        if len(kinds) > 1 and not self.typed:
            return self.column(name, pa.string())
        kind = next(iter(kinds), pa.null())
        chunks = [chunk for file in self.files for chunk in file.read(name)]
        same = [chunk if chunk.type == kind else chunk.cast(kind) for chunk in chunks]
        return without_views(pa.chunked_array(same, kind))

    def number_texts(self, name: str) -> pa.ChunkedArray:
        """A column as texts; in CSV, numbers have points, and marks of missing ones are missing."""
        chunks: list[pa.Array] = []
        for file in self.files:
            texts = replace(self, files=(file,)).column(name, pa.string())
            if file.texts is not None:
                marks = pc.is_in(texts, pa.array(MISSING_NUMBERS))
                texts = pc.if_else(marks, pa.scalar(None, pa.string()), texts)
            chunks += (with_points(texts) if file.decimal == "," else texts).chunks
        return pa.chunked_array(chunks, pa.string())

    def values(self, name: str) -> Iterator[Any]:
        """The values of a column as Python objects, read in batches."""
        for file in self.files:
            for chunk in file.read(name):
                yield from chunk.to_pylist()


def content_of(kind: pa.DataType) -> Content:
    """The kind of values in a column of this type."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_struct(kind) and kind.get_field_index("bytes") >= 0:
        kind = kind.field("bytes").type  # an image as Hugging Face writes it
    types = pa.types
    tests: dict[Content, Sequence[Any]] = {
        "number": (types.is_integer, types.is_floating, types.is_decimal),
        "text": (types.is_string, types.is_large_string, types.is_string_view),
        "truth": (types.is_boolean,),
        "bytes": (types.is_binary, types.is_large_binary, types.is_binary_view),
        "nothing": (types.is_null,),
    }
    return next((name for name, each in tests.items() if any(t(kind) for t in each)), "other")
