"""Rows of one or more CSV or Parquet files, read by column and named in messages."""

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any, ClassVar, Final, Literal

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
from pyarrow import fs

from trainables.data.readers.files import PathOrUri, find_files
from trainables.plugins.arguments import did_you_mean

Content = Literal["number", "text", "truth", "bytes", "nothing", "other"]
"""The content of a column; ``nothing`` if all values are missing."""

Form = Literal["csv", "parquet"]

MISSING: Final = ("", "NA", "N/A", "NaN", "nan", "null", "NULL")
"""Unquoted texts that are missing values in CSV files."""

_BUFFER: Final = 2**23
"""Bytes read at a time; without, all that a row group has of a column, maybe all that there is."""


def open_rows(form: Form, option: str, path: PathOrUri) -> "Rows":
    """Opens the files at a path; see :func:`~trainables.data.readers.files.find_files`.

    Raises ``ValueError`` if a file cannot be read, or there are no rows.
    """
    is_csv = form == "csv"
    open_file = _open_csv_file if is_csv else _open_parquet_file
    source, paths = find_files(option, path, (f".{form}",))
    files = tuple(open_file(option, source, name) for name in paths)
    count = sum(file.count for file in files)
    if count == 0:
        raise ValueError(f"{option}={path} has no rows")
    starts = tuple(accumulate((file.count for file in files[:-1]), initial=0))
    kind = _CsvRows if is_csv else _ParquetRows
    return kind(option, source, files, starts, count)


def rows_of_table(table: pa.Table) -> "Rows":
    """The rows of a table in memory."""
    file = File("", table.schema, table.num_rows, table)
    return _RowsInMemory("samples", fs.LocalFileSystem(), (file,), (0,), file.count)


@dataclass(frozen=True)
class File:
    """One of the files; ``table`` is its whole content if the format requires reading it."""

    path: str
    schema: pa.Schema
    count: int
    table: pa.Table | None = None


@dataclass(frozen=True)
class Rows(ABC):
    """The rows of one or more files, numbered consecutively.

    ``option`` is the name of the option with their path, for messages; ``starts`` has the number of
    the first row of each file, ``count`` is the total.

    Columns are ``typed`` in Parquet and in memory. CSV files contain text: the type of a column is
    a guess from its values, which may differ from file to file.
    """

    typed: ClassVar[bool] = True

    option: str
    source: fs.FileSystem
    files: tuple[File, ...]
    starts: tuple[int, ...]
    count: int

    @property
    def names(self) -> list[str]:
        """Columns of the first file."""
        return list(self.files[0].schema.names)

    def named(self, file: File) -> str:
        """Names a file, for messages."""
        return f"{self.option}={file.path}"

    def where(self, row: int) -> str:
        """Names a row, for messages."""
        file = bisect_right(self.starts, row) - 1
        return f"{self.named(self.files[file])}, row {row - self.starts[file]} (from 0)"

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

    def check_has(self, column: str, option: str, advice: str = "") -> None:
        """Raises ``ValueError``, which ends with the advice, if a file has no such column."""
        for file in self.files:
            names = file.schema.names
            if column not in names:
                raise ValueError(
                    f"{self.named(file)} has no column {column!r} (option {option})"
                    f"{did_you_mean(column, names)}; its columns: {', '.join(names)}{advice}"
                )

    def type(self, column: str) -> pa.DataType:
        """The type of a column in the first file."""
        return self.files[0].schema.field(column).type

    def holds(self, column: str, option: str | None = None) -> str:
        """The beginning of a message about the type of a column, and the option that names it."""
        named = f" (option {option})" if option else ""
        place = self.named(self.files[0])
        return f"{place}: column {column!r}{named} holds {self.type(column)}"

    def column(self, name: str, kind: pa.DataType) -> pa.ChunkedArray:
        """A whole column as one type; ``ValueError`` if a value does not fit.

        Text of CSV files is that of the file: 007 and 3.10, not 7 and 3.1.
        """
        chunks: list[pa.Array] = []
        for file in self.files:
            as_text = kind == pa.string() and file.schema.field(name).type != kind
            for chunk in self._read_text(file, name) if as_text else self._read(file, name):
                coded = pa.types.is_dictionary(chunk.type)
                try:
                    chunks.append((chunk.dictionary_decode() if coded else chunk).cast(kind))
                except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
                    raise ValueError(f"{self.named(file)}: column {name!r}: {error}") from error
        return pa.chunked_array(chunks, kind)

    def values(self, name: str) -> Iterator[Any]:
        """The values of a column as Python objects, read in batches."""
        for file in self.files:
            for chunk in self._read(file, name):
                yield from chunk.to_pylist()

    @abstractmethod
    def _read(self, file: File, column: str) -> Iterator[pa.Array]: ...

    def _read_text(self, file: File, column: str) -> Iterator[pa.Array]:
        """Like ``_read``, as the text that the file contains, if it does."""
        return self._read(file, column)


class _ParquetRows(Rows):
    def _read(self, file: File, column: str) -> Iterator[pa.Array]:
        with _open_parquet(self.option, self.source, file.path) as opened:
            try:
                large = content_of(file.schema.field(column).type) == "bytes"
                size = 64 if large else 1024
                for batch in opened.iter_batches(batch_size=size, columns=[column]):
                    yield batch.column(0)
            except (pa.ArrowException, OSError) as error:
                raise ValueError(
                    f"{self.option}={file.path}: column {column!r} cannot be read: the file is "
                    f"truncated or damaged ({error})"
                ) from error


class _RowsInMemory(Rows):
    def named(self, file: File) -> str:
        return super().named(file) if file.path else "the data frame"

    def _read(self, file: File, column: str) -> Iterator[pa.Array]:
        assert file.table is not None
        yield from file.table[column].chunks


class _CsvRows(_RowsInMemory):
    """CSV files, which are read when opened, because their column types depend on all values."""

    typed = False

    @cached_property
    def _texts(self) -> dict[str, pa.Table]:
        """The content of each file, all columns as text."""
        return {
            file.path: _read_csv(self.option, self.source, file.path, text=file.schema.names)
            for file in self.files
        }

    def _read_text(self, file: File, column: str) -> Iterator[pa.Array]:
        yield from self._texts[file.path][column].chunks


def _open_csv_file(option: str, source: fs.FileSystem, path: str) -> File:
    table = _read_csv(option, source, path)
    return File(path, table.schema, table.num_rows, table)


def _open_parquet_file(option: str, source: fs.FileSystem, path: str) -> File:
    with _open_parquet(option, source, path) as file:
        return File(path, file.schema_arrow, file.metadata.num_rows)


def _open_parquet(option: str, source: fs.FileSystem, path: str) -> pq.ParquetFile:
    try:
        return pq.ParquetFile(path, filesystem=source, buffer_size=_BUFFER, pre_buffer=False)
    except pa.ArrowInvalid as error:
        raise ValueError(f"{option}={path} is not a Parquet file ({error})") from error


def _read_csv(option: str, source: fs.FileSystem, path: str, text: Sequence[str] = ()) -> pa.Table:
    """The content of a file; types of columns are inferred, except those of ``text``."""
    faults: list[pa_csv.InvalidRow] = []

    def note(row: pa_csv.InvalidRow) -> str:
        faults.append(row)
        return "skip"

    try:
        with source.open_input_stream(path) as stream:
            table = pa_csv.read_csv(
                stream,
                parse_options=pa_csv.ParseOptions(
                    newlines_in_values=True, invalid_row_handler=note
                ),
                read_options=pa_csv.ReadOptions(use_threads=False),  # rows keep their numbers
                convert_options=pa_csv.ConvertOptions(
                    column_types=dict.fromkeys(text, pa.string()),
                    null_values=MISSING,
                    strings_can_be_null=True,
                    quoted_strings_can_be_null=False,
                ),
            )
    except pa.ArrowInvalid as error:
        raise ValueError(f"{option}={path} is not a readable CSV file ({error})") from error
    names = table.column_names
    mark = next((mark for mark in ";\t|" if len(names) == 1 and mark in names[0]), None)
    if mark is not None:
        raise ValueError(
            f"{option}={path}: columns are separated by {mark!r}, while commas are expected"
        )
    if faults:
        first = faults[0]
        raise ValueError(
            f"{option}={path}, row {first.number - 2} (from 0): {first.actual_columns} values, "
            f"while the header names {first.expected_columns} columns: {first.text[:80]!r}"
        )
    _check_csv(f"{option}={path}", table)
    return table


def _check_csv(where: str, table: pa.Table) -> None:
    names = table.column_names
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"{where}: two columns are called {twice[0]!r}")
    for name in names:
        if pa.types.is_binary(table[name].type):  # what Arrow makes of text that it cannot read
            for row, value in enumerate(table[name].to_pylist()):
                try:
                    (value or b"").decode("utf-8")
                except UnicodeDecodeError:
                    raise ValueError(
                        f"{where}, row {row} (from 0): {name} is not in UTF-8: {value[:80]!r}"
                    ) from None


def content_of(kind: pa.DataType) -> Content:
    """The kind of values in a column of this type."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_struct(kind) and kind.get_field_index("bytes") >= 0:
        kind = kind.field("bytes").type  # an image as Hugging Face writes it
    tests: dict[Content, Sequence[Any]] = {
        "number": (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal),
        "text": (pa.types.is_string, pa.types.is_large_string),
        "truth": (pa.types.is_boolean,),
        "bytes": (pa.types.is_binary, pa.types.is_large_binary),
        "nothing": (pa.types.is_null,),
    }
    return next((name for name, each in tests.items() if any(t(kind) for t in each)), "other")
