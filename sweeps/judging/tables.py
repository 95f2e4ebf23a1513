"""Files of predictions as named columns, which are converted only when they are used."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sweeps.errors import UserError, first_line
from sweeps.judging.names import has_name, is_text, kind_and_class, shortened
from sweeps.messages.formatting import counted
from trainables.data.readers.files import TABLES, TABLES_SHOWN, without_pickle
from trainables.data.readers.index_columns import is_index
from trainables.plugins.arguments import is_number

Array = npt.NDArray[Any]

SUFFIXES = (".npz", ".npy", ".json", *(end for ends in TABLES.values() for end in ends))
ARRAY = "the array"  # the only column of an npy file, and of a CSV file without a header


class OtherTypeError(UserError):
    """A column holds neither numbers nor words."""


@dataclass(frozen=True)
class Asked:
    """What the user says about files: the options of ``calsweep judge``.

    `labels` is a file; `label` to `model`, and `id`, are keys or columns; an empty one is none.
    """

    logits: bool = False
    labels: str | None = None
    label: str | None = None
    scores: tuple[str, ...] = ()
    predicted: str | None = None
    confidence: str | None = None
    group: str | None = None
    cluster: str | None = None
    model: str | None = None
    ignore_label: str | None = None
    id: str | None = None

    @property
    def words(self) -> set[str]:
        """Columns of classes and names."""
        named = (self.label, self.predicted, self.group, self.cluster, self.model)
        return {each for each in named if each}


@dataclass(frozen=True)
class Table:
    """The columns of a file.

    Attributes:
        path: The file.
        names: Names of the columns in their order; a name may occur twice.
        read: Reads a column by its name: (N,), or (N, K) for a column of lists.
    """

    path: Path
    names: tuple[str, ...]
    read: Callable[[str], Array]
    _known: dict[str, Array] = field(default_factory=dict)

    def column(self, name: str) -> Array:
        """The column of this name.

        Raises:
            UserError: There is none, or more than one, or it has empty cells, rows of different
                lengths, or values that are neither numbers nor words.
        """
        if name not in self._known:
            if self.names.count(name) != 1:
                raise UserError(f"{self.path}: {self._count(name)}")
            try:
                self._known[name] = self.read(name)
            except _ERRORS as error:
                kind = OtherTypeError if isinstance(error, TypeError) else UserError
                raise kind(f"{self.path}: column {name}: {first_line(error)}") from None
        return self._known[name]

    @property
    def visible(self) -> tuple[str, ...]:
        """The columns that do not just number the rows."""
        return tuple(each for each in self.names if not is_index(each))

    def called(self, words: Sequence[str]) -> list[str]:
        """The columns of these names, in the order of the names."""
        return [each for word in words for each in self.visible if has_name(each, (word,))]

    def numbers(self, name: str) -> Array | None:
        """The column if it holds numbers, which may be written as text, else None.

        Raises:
            UserError: It has empty cells, rows of different lengths, or is there twice.
        """
        try:
            values = self.column(name)
        except OtherTypeError:
            return None
        if values.dtype.kind != "U" or is_text(name):
            return values if values.dtype.kind in "fiu" else None
        try:
            return values.astype(np.float64)
        except ValueError:
            return None

    def figures(self, name: str) -> Array:
        """The column as numbers, which may be written as text.

        Raises:
            UserError: As of :meth:`column`, or a value is no number.
        """
        values = self.column(name)
        if values.dtype.kind not in "US":
            return values
        try:
            return values.astype(np.float64)
        except ValueError:
            wrong = next(each for each in values.ravel().tolist() if not is_number(each))
            percent = "; write percent as shares, 0.5 for 50%" if "%" in str(wrong) else ""
            raise UserError(
                f"{self.path}: {name} holds {wrong!r}; scores are numbers{percent}"
            ) from None

    def readable(self, name: str) -> Array | None:
        """The column if it can be read, else None: it may not be used at all."""
        try:
            return self.column(name)
        except UserError:
            return None

    def words(self, name: str) -> list[str]:
        """The column if it can be read and holds words, (N,), else an empty list."""
        values = self.readable(name)
        found = values is not None and values.dtype.kind == "U" and values.ndim == 1
        return values.tolist() if values is not None and found else []

    def _count(self, name: str) -> str:
        if name in self.names:
            return f"has {self.names.count(name)} columns called {name!r}; rename all but one"
        return f"has no {name!r}; it has {shortened(self.names) or 'nothing'}"


_ERRORS = (OSError, ValueError, TypeError, NotImplementedError, zipfile.BadZipFile)


def open_table(path: Path, words: Collection[str] = ()) -> Table:
    """The table in a file; columns of a CSV that are in `words` or hold labels are read as text."""
    if not path.name.lower().endswith(SUFFIXES):
        raise UserError(
            f"{path}: is not a file of predictions; allowed: .npz, .npy, {TABLES_SHOWN}. In "
            "Python, np.savez('predictions.npz', probs=probs, labels=labels) writes one"
        )
    if not path.exists():
        raise UserError(f"{path}: there is no such file")
    try:
        if path.suffix.lower() == ".npy":
            array = np.load(path, allow_pickle=False)
            return Table(path, (ARRAY,), lambda _: array)
        if path.suffix.lower() == ".npz":
            arrays = np.load(path, allow_pickle=False)
            return Table(path, tuple(arrays.files), partial(_stored, arrays))
    except _ERRORS as error:
        raise UserError(f"{path}: cannot be read: {without_pickle(error)}") from None
    try:
        return _tabular(path, words)
    except (OSError, ValueError) as error:
        raise UserError(first_line(error)) from None


def _tabular(path: Path, words: Collection[str]) -> Table:
    import pyarrow as pa

    from trainables.data.readers.tabular import open_tabular

    files = open_tabular("", path, names_needed=False)
    [file] = files.files
    if not file.header:
        columns = [pa.chunked_array(file.read(name)) for name in file.schema.names]
        if any(pa.types.is_string(column.type) for column in columns):
            files.check_header()
        array = np.stack([_array(column).astype(np.float64) for column in columns], axis=1)
        return Table(path, (ARRAY,), lambda _: array)

    named = {*file.schema.names, *(of for _, of in filter(None, map(kind_and_class, files.names)))}

    def read(name: str) -> Array:
        as_text = not files.typed and (name in words or is_text(name))
        return _array(files.column(name, pa.string(), named) if as_text else files.as_it_is(name))

    return Table(path, tuple(file.schema.names), read)


def _stored(arrays: Any, name: str) -> Array:
    """An array of an npz file."""
    try:
        return np.asarray(arrays[name])
    except ValueError as error:
        raise ValueError(without_pickle(error)) from None


def _array(column: Any) -> Array:
    """A column of Arrow's as (N,), or (N, K) from lists of one length."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = column.type
    if column.null_count:
        raise _empty_cells(column.is_null())
    if pa.types.is_dictionary(kind):
        return _array(column.cast(kind.value_type))
    if isinstance(kind, pa.FixedShapeTensorType):
        flat = _array(pa.chunked_array([chunk.storage for chunk in column.chunks]))
        return flat.reshape(-1, *kind.shape)
    if pa.types.is_decimal(kind):
        return _array(column.cast(pa.float64()))
    lists = "list", "large_list", "fixed_size_list", "list_view", "large_list_view"
    if any(getattr(pa.types, f"is_{each}")(kind) for each in lists):
        return _rows(column)
    if pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        return np.asarray(column.to_numpy())
    if "string" in str(kind) or "binary" in str(kind):
        empty = pc.equal(pc.binary_length(column := column.cast(pa.string())), 0)
        if pc.any(empty).as_py():
            raise _empty_cells(empty)
        return np.asarray(column.to_pylist(), dtype=str)
    raise TypeError(f"has the type {kind}; allowed: numbers, words, lists of numbers")


def _empty_cells(empty: Any) -> ValueError:
    rows = np.flatnonzero(empty.to_numpy(zero_copy_only=False))
    return ValueError(
        f"has {counted(len(rows), 'empty cell')}, the first in row {rows[0]} (from 0); remove such "
        "rows"
    )


def _rows(column: Any) -> Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    if not pa.types.is_fixed_size_list(column.type):
        lengths = pc.unique(pc.list_value_length(column)).to_pylist()
        if len(lengths) > 1:
            some = ", ".join(map(str, sorted(lengths)[:5]))
            raise ValueError(f"has rows of different lengths: {some}")
    flat = _array(pc.list_flatten(column))
    return flat.reshape(len(column), -1, *flat.shape[1:]) if len(column) else flat.reshape(0, 0)
