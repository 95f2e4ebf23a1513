"""One file with rows and named columns: Parquet, Arrow IPC (Feather), or JSON lines."""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

import pyarrow as pa
import pyarrow.feather as pa_feather
import pyarrow.ipc as pa_ipc
import pyarrow.json as pa_json
import pyarrow.parquet as pq
from pyarrow import fs

_BUFFER: Final = 2**23
"""Bytes read at a time; without, all that a row group has of a column, maybe all that there is."""

_BLOCK: Final = 2**26  # bytes; no line of a JSON file may be longer

Chunks: TypeAlias = Iterator[pa.Array]


@dataclass(frozen=True)
class File:
    """A file of a table.

    Attributes:
        path: Its path; empty for a table in memory.
        schema: Names and types of its columns. In CSV, types are a guess from the values.
        count: Number of rows.
        read: Reads a column by its name, which occurs once.
        texts: Reads a column as the text in the file, if the file is text. The second argument has
            texts that are not missing, although they are spelled like missing values.
        decimal: The decimal mark of numbers in these texts.
        header: Whether the columns have names.
    """

    path: str
    schema: pa.Schema
    count: int
    read: Callable[[str], Chunks]
    texts: Callable[[str, Collection[str]], Chunks] | None = None
    decimal: str = "."
    header: bool = True


def without_views(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column of views, as Polars writes them, as a type that all functions of Arrow take."""
    types, kind = pa.types, column.type
    if types.is_dictionary(kind) and types.is_string_view(kind.value_type):
        words = [(each.indices, each.dictionary.cast(pa.string())) for each in column.chunks]
        coded = [pa.DictionaryArray.from_arrays(*each) for each in words]
        return pa.chunked_array(coded, pa.dictionary(kind.index_type, pa.string()))
    if types.is_string_view(kind):
        return column.cast(pa.string())
    return column.cast(pa.binary()) if types.is_binary_view(kind) else column


def file_of(path: str, table: pa.Table) -> File:
    """A file whose content is in memory."""
    plain = list(map(without_views, table.columns))
    kept = table.schema.metadata
    table = pa.Table.from_arrays(plain, table.column_names).replace_schema_metadata(kept)
    return File(path, table.schema, table.num_rows, lambda name: iter(table[name].chunks))


def open_parquet(where: str, source: fs.FileSystem, path: str) -> File:
    """A Parquet file, read by column when a column is used; ``ValueError`` if it is none."""

    def read(name: str) -> Chunks:
        with _parquet(where, source, path) as opened:
            try:
                has_bytes = "binary" in str(opened.schema_arrow.field(name).type)
                size = 64 if has_bytes else 1024
                for batch in opened.iter_batches(batch_size=size, columns=[name]):
                    yield batch.column(name)  # also columns whose names begin alike are there
            except (pa.ArrowException, OSError) as error:
                raise ValueError(
                    f"{where}: column {name!r} cannot be read: the file is truncated or damaged "
                    f"({error})"
                ) from error

    with _parquet(where, source, path) as file:
        return File(path, file.schema_arrow, file.metadata.num_rows, read)


def _parquet(where: str, source: fs.FileSystem, path: str) -> pq.ParquetFile:
    try:
        return pq.ParquetFile(path, filesystem=source, buffer_size=_BUFFER, pre_buffer=False)
    except pa.ArrowNotImplementedError as error:  # pyarrow then reads no other column either
        hint = "a column of Int128, as Polars writes it, must have 64 bits"
        raise ValueError(f"{where} cannot be read: {error}; {hint}") from None
    except (pa.ArrowInvalid, OSError) as error:
        raise ValueError(f"{where} is not a Parquet file ({error})") from error


def open_arrow(where: str, source: fs.FileSystem, path: str) -> File:
    """A file in Arrow's IPC format, with or without footer, or in the first version of Feather."""
    local = isinstance(source, fs.LocalFileSystem)
    try:
        content = pa.memory_map(path) if local else source.open_input_file(path)
        begins = content.read(6)
        content.seek(0)
        if begins.startswith(b"FEA1"):
            return file_of(path, pa_feather.read_table(content))
        whole = begins == b"ARROW1"
        with pa_ipc.open_file(content) if whole else pa_ipc.open_stream(content) as stream:
            return file_of(path, stream.read_all())
    except (pa.ArrowException, OSError, EOFError) as error:
        raise ValueError(f"{where} is not an Arrow or Feather file ({error})") from error


def open_json_lines(where: str, source: fs.FileSystem, path: str) -> File:
    """A file with a JSON object in each line. Texts stay texts, also if they are dates."""

    def table(kinds: pa.Schema | None) -> pa.Table:
        with source.open_input_stream(path) as stream:
            return pa_json.read_json(
                stream,
                pa_json.ReadOptions(use_threads=False, block_size=_BLOCK),
                pa_json.ParseOptions(explicit_schema=kinds),
            )

    try:
        with source.open_input_stream(path) as stream:
            if stream.read(64).lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"["):
                raise ValueError(
                    f"{where} is one JSON array; needed: JSON lines, an object in each line"
                )
        found = table(None)
        if dates := [field.name for field in found.schema if pa.types.is_timestamp(field.type)]:
            found = table(pa.schema([(name, pa.string()) for name in dates]))
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"{where} is not readable as JSON lines ({error})") from error
    return file_of(path, found)
