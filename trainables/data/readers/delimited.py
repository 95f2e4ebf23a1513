"""CSV in all its forms: the separator, decimal mark, header and encoding are found in the file."""

import csv
import re
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice, pairwise
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
from pyarrow import fs

from trainables.data.kinds.encode import NUMBER
from trainables.data.readers.tabular_file import File
from trainables.plugins.arguments import is_number

MISSING: Final = ("", " ", "NA", "N/A", "NaN", "nan", "null", "NULL")
"""Unquoted texts that are missing values."""

MISSING_NUMBERS: Final = (
    *("?", "-", "--", ".", "*", "n/a", "None", "<NA>"),
    *("#N/A", "#NULL!", "#DIV/0!", "#VALUE!"),
)
"""Texts that are missing values in columns whose other values are numbers."""

_HEAD: Final = 2**20  # bytes that are looked at
_BLOCK: Final = 2**24  # bytes; no row may be longer
_LOOKED_AT: Final = 50  # rows
_MOST_REPEATED: Final = 1000  # in an expression of RE2
_MARKS: Final = ((b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"), (b"\xef\xbb\xbf", "utf-8-sig"))
_NOT_TEXT: Final = (
    (b"PK\x03\x04", "is a zip archive, as .xlsx files are: unpack it, or save the sheet as CSV"),
    (b"\x1f\x8b", "is compressed by gzip: let its name end in .gz"),
    (b"PAR1", "is a Parquet file: let its name end in .parquet"),
    (b"ARROW1", "is an Arrow file: let its name end in .arrow"),
)
_SEPARATOR_LINE: Final = re.compile(r'"?sep=(.)"?', re.IGNORECASE)
_COMMA_NUMBER: Final = r"^\s*([-+]?\d*),(\d+([eE][-+]?\d+)?)\s*$"
_ABOVE: Final = "if the table begins further down, remove the lines above it"
_ONE_ANSWER: Final = ("", "Response", "Open-Ended Response")
_NO_LETTERS: Final = r"^[-+]?\d[^A-Za-z]*$"
_THOUSANDS: Final = r"^\s*[-+]?[1-9]\d{0,2}(,\d{3})+\s*$"


@dataclass(frozen=True)
class _Dialect:
    """How the text of a file is written.

    Attributes:
        encoding: The name of Python's codec.
        separator: Between the values of a row.
        skipped: Number of lines before the header, or, without one, before the first row.
        names: Names of the columns if the first line of the table has others.
        header: Whether the columns have names.
        described: Number of rows below the header that describe the columns.
        spaced: Whether spaces follow separators.
    """

    encoding: str = "utf-8"
    separator: str = ","
    skipped: int = 0
    names: tuple[str, ...] = ()
    header: bool = True
    described: int = 0
    spaced: bool = False


def open_delimited(where: str, source: fs.FileSystem, path: str) -> File:
    """A file of separated values, which is read at once: types depend on all values.

    Raises:
        ValueError: It cannot be read. The message begins with ``where``, and says why.
    """
    try:
        text = _Text(where, source, path, _dialect(where, source, path))
        table = text.table
    except UnicodeError as error:
        raise ValueError(f"{where}: the header is not in UTF-8 ({error})") from error
    except (pa.ArrowInvalid, OSError) as error:
        raise ValueError(f"{where} is not a readable CSV file ({error})") from error
    return File(
        path,
        table.schema,
        table.num_rows,
        lambda name: iter(table[name].chunks),
        lambda name, known: iter(text.written(name, known).chunks),
        text.decimal,
        text.header,
    )


@dataclass(frozen=True)
class _Text:
    """The content of a file, parsed when it is used."""

    where: str
    source: fs.FileSystem
    path: str
    dialect: _Dialect
    _columns: dict[str, pa.ChunkedArray] = field(default_factory=dict)

    @cached_property
    def table(self) -> pa.Table:
        """All columns, with types that fit all their values."""
        table = self._points if self.decimal == "." else self._commas
        names = [name.strip() for name in table.column_names]
        if len(names) > 2 and names.count("") > len(names) / 2:
            raise ValueError(
                f"{self.where}: only {len(names) - names.count('')} of {len(names)} columns have a "
                f"name; {_ABOVE}"
            )
        for name, column in zip(names, table.columns, strict=True):
            self._check_text(name, column)
        return pa.Table.from_arrays([self._numbers(column) for column in table.columns], names)

    def _numbers(self, column: pa.ChunkedArray) -> pa.ChunkedArray:
        """A column of numbers and marks of missing values as numbers; others unchanged."""
        if not pa.types.is_string(column.type):
            return column
        marks = pc.is_in(column, pa.array(MISSING_NUMBERS))
        if not pc.any(marks).as_py():
            return column
        texts = pc.if_else(marks, pa.scalar(None, pa.string()), column)
        texts = pc.utf8_trim_whitespace(with_points(texts) if self.decimal == "," else texts)
        if texts.null_count == len(texts) or not pc.all(_matches(texts, NUMBER)).as_py():
            return column
        try:
            return texts.cast(pa.int64())
        except pa.ArrowInvalid:
            return texts.cast(pa.float64())

    @cached_property
    def header(self) -> bool:
        """Whether the first line has names, not values like those of the columns below."""
        names = self.table.column_names
        if not self.dialect.header or self.dialect.names or all(map(is_number, names)):
            return self.dialect.header
        return not all(map(_is_value, names, self.table.columns))

    @cached_property
    def _points(self) -> pa.Table:
        return self._parsed(decimal=".")

    @cached_property
    def _commas(self) -> pa.Table:
        return self._parsed(decimal=",")

    @cached_property
    def decimal(self) -> str:
        """The decimal mark: a comma if more columns are numbers by it, and none fewer."""
        if self.dialect.separator == ",":
            return "."
        texts = _text_columns(self._points)
        if not any(pc.any(_matches(self._points.column(i), _COMMA_NUMBER)).as_py() for i in texts):
            return "."
        left = _text_columns(self._commas)
        gained = texts - left
        thousands = all(
            pc.all(_matches(self._points.column(i).drop_null(), _THOUSANDS)).as_py() for i in gained
        )
        return "." if not left < texts or thousands else ","

    def written(self, name: str, known: Collection[str]) -> pa.ChunkedArray:
        """A column as the text in the file, with points as decimal marks of numbers.

        Texts in ``known`` are not missing.
        """
        column = self.table[name]
        if pa.types.is_string(column.type) and not (column.null_count and known):
            return column
        if name not in self._columns:
            place = self.table.column_names.index(name)
            self._columns[name] = self._parsed(only=self._points.column_names[place]).column(0)
        texts = self._columns[name]
        if self.decimal == "," and not pa.types.is_string(column.type):
            texts = with_points(texts)
        empty = column.is_null()
        if known:
            empty = pc.and_(empty, pc.invert(pc.is_in(texts, pa.array([*known], pa.string()))))
        return pc.if_else(empty, pa.scalar(None, pa.string()), texts)

    def _parsed(self, *, decimal: str = ".", only: str | None = None) -> pa.Table:
        """The rows; ``only`` one column, as text of which nothing is missing."""
        dialect, faults = self.dialect, list[pa_csv.InvalidRow]()

        def note(row: pa_csv.InvalidRow) -> str:
            faults.append(row)
            return "skip"

        with self._stream() as stream:
            table = pa_csv.read_csv(
                stream,
                read_options=pa_csv.ReadOptions(
                    use_threads=False,  # rows keep their numbers
                    block_size=_BLOCK,
                    encoding="utf8" if dialect.encoding == "utf-8-sig" else dialect.encoding,
                    skip_rows=dialect.skipped,
                    skip_rows_after_names=dialect.described,
                    column_names=dialect.names or None,
                    autogenerate_column_names=not dialect.header,
                ),
                parse_options=pa_csv.ParseOptions(
                    delimiter=dialect.separator, newlines_in_values=True, invalid_row_handler=note
                ),
                convert_options=pa_csv.ConvertOptions(
                    include_columns=None if only is None else [only],
                    column_types=None if only is None else {only: pa.string()},
                    decimal_point=decimal,
                    null_values=MISSING,
                    strings_can_be_null=only is None,
                    quoted_strings_can_be_null=False,
                ),
            )
        if faults:
            first, named = faults[0], dialect.header and not dialect.names
            row = first.number - dialect.skipped - 1 - named - dialect.described
            above = f"; {_ABOVE}" if first.expected_columns == 1 else ""
            raise ValueError(
                f"{self.where}, row {row} (from 0): {first.actual_columns} values, while the "
                f"header names {first.expected_columns} columns: {first.text[:80]!r}{above}"
            )
        return table

    def _stream(self) -> pa.NativeFile:
        stream = self.source.open_input_stream(self.path)
        if not self.dialect.spaced:
            return stream
        with stream:
            text = stream.read().decode(self.dialect.encoding, "surrogateescape")
        spaces = rf'("[^"]*")|(^|{re.escape(self.dialect.separator)}) +'
        text = re.sub(spaces, r"\1\2", text, flags=re.MULTILINE)
        return pa.BufferReader(text.encode(self.dialect.encoding, "surrogateescape"))

    def _check_text(self, name: str, column: pa.ChunkedArray) -> None:
        """Raises ``ValueError`` for rows in a value, and for text that Arrow cannot read."""
        if pa.types.is_string(column.type) and self.dialect.separator == "\t":
            others = min(len(self._points.column_names) - 1, _MOST_REPEATED)
            rows = _matches(column, rf"\n[^\n\t]*(\t[^\n\t]*){{{others}}}\r?\n")
            if (row := pc.index(rows, True).as_py()) >= 0:
                raise ValueError(
                    f"{self.where}, row {row} (from 0): {name} holds whole rows, "
                    "because a quotation mark is not closed; remove it, or double and quote it"
                )
        if not pa.types.is_binary(column.type):
            return
        for row, value in enumerate(column.to_pylist()):
            try:
                (value or b"").decode("utf-8")
            except UnicodeDecodeError:
                raise ValueError(
                    f"{self.where}, row {row} (from 0): {name} is not in UTF-8: {value[:80]!r}; "
                    "save the file as UTF-8"
                ) from None


def with_points(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    """Numbers with decimal commas, written with points; other texts are unchanged."""
    return pc.replace_substring_regex(texts, _COMMA_NUMBER, r"\1.\2")


def _matches(texts: pa.ChunkedArray, pattern: str) -> pa.ChunkedArray:
    return pc.match_substring_regex(texts, pattern)


def _text_columns(table: pa.Table) -> set[int]:
    return {i for i, field in enumerate(table.schema) if pa.types.is_string(field.type)}


def _dialect(where: str, source: fs.FileSystem, path: str) -> _Dialect:
    with source.open_input_stream(path) as stream:
        head: bytes = stream.read(_HEAD)
        while not re.search(rb"[\r\n]", head) and (more := stream.read(_HEAD)):
            head += more
    for begin, reason in _NOT_TEXT:
        if head.startswith(begin):
            raise ValueError(f"{where} {reason}")
    encoding = next((name for mark, name in _MARKS if head.startswith(mark)), "utf-8")
    if encoding != "utf-16" and b"\0" in head:
        raise ValueError(
            f"{where} is no text: it has bytes of value 0; UTF-16 needs a byte order mark"
        )
    lines = re.split(r"\r\n|\r|\n", head.decode(encoding, errors="replace"))
    is_tab = re.search(r"\.tsv(\.gz)?$", path, re.IGNORECASE) is not None
    return _dialect_of(lines, encoding, "\t" if is_tab else None)


def _dialect_of(lines: Sequence[str], encoding: str, usual: str | None) -> _Dialect:
    """The dialect of a file that begins with these lines; tabs are ``usual`` in a TSV file."""
    given = _SEPARATOR_LINE.fullmatch(lines[0])
    start = 1 if given else 0
    comment = None
    while start < len(lines) and (lines[start].startswith("#") or not lines[start].strip()):
        comment = lines[start] if lines[start].startswith("#") else comment
        start += 1
    body = lines[start:] if start < len(lines) else []
    if not body and comment is not None:  # a header alone
        start, body, comment = 0, lines, None
    separator = given[1] if given else _separator(body)
    if usual and body and usual in body[0]:
        separator = usual
    records = _records(body, separator)
    first = records[0] if records else []
    names = [] if comment is None else next(iter(_records([comment.lstrip("# ")], separator)), [])
    if not 1 < len(names) == len(first) or not any(map(is_number, first)):
        names = _other_names(records)
        start += _num_lines(body, separator, 1) if names else 0
    if not names and (names := _survey_names(records)):
        start += _num_lines(body, separator, 2)
    return _Dialect(
        encoding,
        separator,
        start,
        tuple(name.strip() for name in names),
        bool(names) or _is_header(first),
        _described(records),
        _is_spaced(body, separator),
    )


def _other_names(records: Sequence[Sequence[str]]) -> list[str]:
    """Names of the columns if the rows have one value more or less than the header.

    The header may end in a separator that the rows do not have, or the reverse; R's write.table
    gives the column of the row names no name. Empty for other files.
    """
    header, rows = [*(records[0] if records else ())], records[1:]
    if len(rows) < 2 or len({len(row) for row in rows}) > 1:
        return []
    more = len(rows[0]) - len(header)
    if more == -1 and not header[-1]:
        return header[:-1]
    if more != 1 or len(header) < 2:
        return []
    if not any(row[-1] for row in rows):
        return [*header, ""]
    return ["", *header] if len({row[0] for row in rows}) == len(rows) else []


def _survey_names(records: Sequence[Sequence[str]]) -> list[str]:
    """Names in SurveyMonkey's exports: a question over several columns, its options in row two."""
    if len(records) < 3 or len(records[0]) != len(records[1]):
        return []
    (first, *header), (corner, *options) = records[:2]
    without = [option for name, option in zip(header, options, strict=True) if not name]
    if len(without) < 2 or not all(without) or corner or any(map(is_number, options)):
        return []
    names, question = [first], ""
    for name, option in zip(header, options, strict=True):
        question = name or question
        names.append(f"{question}: {option}" if option not in _ONE_ANSWER else question)
    return names


def _num_lines(lines: Sequence[str], separator: str, count: int) -> int:
    """Number of lines of the first rows, whose values may have line breaks."""
    reader = _reader(lines, separator)
    for _ in islice(filter(None, reader), count):
        pass
    return int(reader.line_num)


def _described(records: Sequence[Sequence[str]]) -> int:
    """Number of rows below the header that describe columns.

    These are 2 in the exports of Qualtrics, and 3 in TrackMate's, of which the last has units.
    """
    ids, units = [*records[2:4], [], []][:2]
    if ids and all(cell.startswith('{"ImportId"') for cell in ids):
        return 2
    return 3 if any(units) and all(re.fullmatch(r"(\(.*\))?", cell) for cell in units) else 0


def _is_value(name: str, column: pa.ChunkedArray) -> bool:
    """Whether a name could be a value of its column."""
    if name in (*MISSING, *MISSING_NUMBERS):
        return True
    if pa.types.is_string(column.type):
        alike = pc.match_substring_regex(column, _NO_LETTERS)
        figures = re.match(_NO_LETTERS, name) is not None and pc.all(alike).as_py()
        return bool(figures or pc.any(pc.equal(column, name)).as_py())
    if pa.types.is_temporal(column.type):
        return name[:1].isdigit()
    if pa.types.is_boolean(column.type):
        return name.lower() in ("true", "false")
    return not pa.types.is_null(column.type) and is_number(name)


def _reader(lines: Sequence[str], separator: str) -> Any:
    return csv.reader((f"{line}\n" for line in lines), delimiter=separator, skipinitialspace=True)


def _records(lines: Sequence[str], separator: str) -> list[list[str]]:
    """The first rows, as lists of values."""
    reader = _reader(lines, separator)
    found: list[list[str]] = []
    with suppress(csv.Error):  # a very long value
        found.extend(filter(None, islice(reader, _LOOKED_AT)))
    return found


def _separator(lines: Sequence[str]) -> str:
    """The separator by which all rows have as many values as the header, the most if several do."""

    def fits(separator: str) -> tuple[float, int]:
        widths = [len(record) for record in _records(lines[:-1] or lines, separator)]
        if not widths or widths[0] < 2:
            return 0.0, 0
        return sum(width == widths[0] for width in widths) / len(widths), widths[0]

    return max(",;\t|", key=fits)


def _is_spaced(lines: Iterable[str], separator: str) -> bool:
    """Whether spaces follow the separators of the header, or those of all rows."""
    shown = [re.sub(r'"[^"]*"', '""', line) for line in islice(lines, _LOOKED_AT)]
    if not shown or separator == " ":
        return False
    all_of, spaced = ("\n".join(shown).count(each) for each in (separator, f"{separator} "))
    return f"{separator} " in shown[0] or (all_of > 0 and spaced >= 0.9 * all_of)


def _is_header(cells: Sequence[str]) -> bool:
    """Whether a first line names columns: NumPy's savetxt writes numbers at once.

    Different whole numbers in rising order are names of classes.
    """
    if not all(map(is_number, cells)):
        return True
    numbers = [float(each) for each in cells]
    rising = all(low < high for low, high in pairwise(numbers))
    return rising and all(re.fullmatch(r"\d+(\.0)?", each.strip()) for each in cells)
