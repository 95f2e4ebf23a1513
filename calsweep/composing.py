"""Turns arrays, functions and classes in memory into sections of a sweep file."""

from __future__ import annotations

import inspect
import io
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from itertools import count
from typing import TYPE_CHECKING, Any, TypeAlias

from sweeps.errors import UserError
from sweeps.store.storage import storage_faults, sweep_names
from trainables.files.storage import Folder, absolute, digest_of, new_digest

if TYPE_CHECKING:
    import numpy.typing as npt
    import pyarrow as pa

Section: TypeAlias = dict[str, Any]
Columns: TypeAlias = "dict[str, npt.NDArray[Any]]"
_LABEL, _TEXT, _WEIGHT, _GROUP = "label", "text", "weight", "group"


class Composer:
    """Writes objects in memory to the storage, where all processes can read them.

    Arrays are in ``<storage>/data``, other objects in ``<storage>/code``. File names contain a
    digest: nothing is written twice or overwritten. Methods raise ``UserError`` if their argument
    cannot be used, or the storage cannot be written.
    """

    def __init__(self, storage: str) -> None:
        self.storage = absolute(storage)

    def free_names(self) -> Iterator[str]:
        """``sweep-1``, ``sweep-2`` and so on, without the names of existing sweeps."""
        taken = set(sweep_names(self.storage))
        return (name for n in count(1) if (name := f"sweep-{n}") not in taken)

    def dataset(self, given: Any, groups: Any = None) -> str | Section:
        """The section ``dataset`` from a name, a section, a loader, or samples and labels.

        ``groups`` are the customers, patients ... of samples that are given, in the same form, or
        ``equal_rows``.
        """
        if groups is not None and not isinstance(given, tuple):
            raise UserError(
                "groups are for samples in memory; of files, name the column: dataset.group"
            )
        if not isinstance(given, tuple) or len(given) not in (2, 3):
            return self._section(
                "dataset",
                given,
                "samples and labels (X, y), with weights (X, y, sample_weight), two or three such: "
                "(train, test) or (train, validation, test), the name of a dataset, a section of a "
                "sweep file, or a function that loads one",
            )
        from trainables.data.core.equal_rows import EQUAL_ROWS
        from trainables.data.labelling.groups import IN_ALL

        divided: Section = {}
        if isinstance(groups, str) and groups == EQUAL_ROWS:
            divided, groups = {_GROUP: EQUAL_ROWS}, None
        several = isinstance(given[0], tuple)
        parts = _by_part(given if several else (given, None))
        of_parts = dict.fromkeys(parts)
        if groups is not None:
            if several and (not isinstance(groups, tuple) or len(groups) != len(given)):
                raise UserError(
                    f"groups is a {_form(groups)}; with {len(given)} parts in dataset, it must be "
                    f"a tuple of {len(given)} arrays"
                )
            of_parts = _by_part(groups if several else (groups, None))
            if without := [key for key, part in parts.items() if part and of_parts[key] is None]:
                raise UserError(f"{without[0]} has no groups{IN_ALL}")
        found = [
            self._kept_data(key, part, of_parts[key])
            for key, part in parts.items()
            if part is not None
        ]
        if len({each["name"] for each in found}) > 1:
            raise UserError(f"dataset: samples of {', '.join(parts)} are of different kinds")
        return {key: value for each in reversed(found) for key, value in each.items()} | divided

    def model(self, given: Any) -> str | Section:
        """The section ``model`` from a name, a section, a function, a class or a module."""
        if not isinstance(given, str | Mapping):
            from torch import nn

            from trainables.models.fresh import Fresh

            if isinstance(given, nn.Module):
                with _user_errors("model: "):
                    return self._named("model", Fresh(given), type(given).__name__)
        return self._section(
            "model",
            given,
            "the name of a model, a section of a sweep file, or a function or class that builds a "
            "module",
        )

    def trainable(self, given: Any) -> str | Section:
        """The section ``trainable`` from a name, a section or a function."""
        if isinstance(given, Mapping):
            functions = {k: v for k, v in given.items() if k in ("name", "load") and callable(v)}
            return {**given, **{k: self._named("trainable", v) for k, v in functions.items()}}
        return self._section(
            "trainable",
            given,
            "package.module:function, a section of a sweep file, or a function that takes a trial",
        )

    def losses(self, given: Any) -> list[str | Section]:
        """The section ``losses`` from names, classes and results of `calsweep.loss`."""
        if isinstance(given, (str, Mapping)) or not isinstance(given, Sequence):
            given = [given]
        return [self._loss(each) for each in given]

    def _loss(self, given: Any) -> str | Section:
        if isinstance(given, Mapping):
            name = given.get("name")
            return {**given, "name": self._named("losses", name) if callable(name) else name}
        if isinstance(given, str):
            return given
        if not inspect.isclass(given):
            raise UserError(
                f"losses: {given!r} is not allowed; allowed: the name of a loss, calsweep.loss("
                "name, ...), or a class"
            )
        return self._named("losses", given)

    def _section(self, key: str, given: Any, allowed: str) -> str | Section:
        """A name, a section, or a function or class under its name."""
        if isinstance(given, str):
            return given
        if isinstance(given, Mapping):
            return dict(given)
        if not callable(given):
            raise UserError(f"{key} is a {_form(given)}; allowed: {allowed}")
        return self._named(key, given)

    def _named(self, key: str, value: Any, label: str | None = None) -> str:
        """The dotted path of a function or class, or the name under which it is stored."""
        module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", "")
        if label is None and name.isidentifier() and _is_importable(module, name, value):
            return f"{module}:{name}"
        label = label or re.sub(r"\W+", "_", name.rpartition(".")[2]).strip("_") or "function"
        from trainables.plugins.saved_objects import keep

        try:
            with storage_faults(self.storage):
                return keep(Folder(self.storage) / "code", value, label)
        except ValueError as error:
            raise UserError(
                f"{key}: {error}; define it without that, or in a module that can be imported"
            ) from None

    def _kept_data(self, key: str, given: Any, groups: Any) -> Section:
        """Writes samples, labels, weights and groups to a file; returns the section to read it."""
        if not isinstance(given, tuple) or len(given) not in (2, 3):
            raise UserError(
                f"dataset: {key} is a {_form(given)}; it must be samples and labels, (X, y)"
            )
        if len(given) == 3 and key != "train":
            raise UserError(f"dataset: {key}: weights are for samples to train on; leave them out")
        samples, labels, *weights = given
        where = f"dataset: {key}"
        beside = {_WEIGHT: _weights(weights[0], len(labels), where)} if weights else {}
        if groups is not None:
            beside[_GROUP] = _groups(groups, len(labels), where)
        targets = labels, beside
        if hasattr(samples, "columns") or hasattr(samples, "column_names"):  # a data frame
            name, stem, data, more = "parquet", *_table(samples, *targets, where)
        elif _are_texts(samples):
            name, stem, data, more = "parquet", *_texts(samples, *targets, where)
        else:
            name, stem, data, more = "npz", *_arrays(samples, *targets, where)
        folder, file = Folder(self.storage) / "data", f"{stem}.{name}"
        with storage_faults(self.storage):
            if not folder.exists(file):
                folder.write(file, data)
        return {"name": name, key: (folder / file).uri, **more}


@contextmanager
def _user_errors(before: str = "") -> Iterator[None]:
    """Context whose errors about a value, also those of Arrow, are the user's."""
    try:
        yield
    except (TypeError, ValueError) as error:
        raise UserError(f"{before}{error}") from None


def _is_importable(module: str | None, name: str, value: object) -> bool:
    if module in (None, "__main__") or getattr(sys.modules.get(module), name, None) is not value:
        return False
    try:
        return find_spec(module) is not None
    except (ImportError, ValueError):
        return False


def _form(given: Any) -> str:
    of = f" of {len(given)}" if isinstance(given, tuple) else ""
    return f"{type(given).__name__}{of}"


def _are_texts(samples: Any) -> bool:
    return (
        not isinstance(samples, str)
        and getattr(samples, "ndim", 1) == 1
        and len(samples) > 0
        and all(isinstance(text, str) for text in samples)
    )


def _arrays(samples: Any, labels: Any, beside: Columns, where: str) -> tuple[str, bytes, Section]:
    import numpy as np

    from trainables.data.readers.arrays import as_arrays

    with _user_errors():
        x, y = as_arrays(samples, labels, where)
    arrays: dict[str, Any] = {"x": x, "y": y, **beside}
    digest = new_digest()
    for array in arrays.values():
        digest.update(f"{array.dtype.str}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).view(np.uint8).data)
    stream = io.BytesIO()
    np.savez(stream, **arrays)
    return f"arrays-{digest.hexdigest()}", stream.getvalue(), {key: key for key in beside}


def _texts(samples: Any, labels: Any, beside: Columns, where: str) -> tuple[str, bytes, Section]:
    import pyarrow as pa

    rows = pa.table({_TEXT: pa.array(list(samples), pa.string())})
    return _rows("texts", rows, (labels, beside), where, {"text": _TEXT})


def _table(samples: Any, labels: Any, beside: Columns, where: str) -> tuple[str, bytes, Section]:
    from trainables.data.kinds.encode import as_table
    from trainables.data.readers.index_columns import is_index

    with _user_errors(f"{where}: "):
        rows = as_table(samples)
    features = [name for name in rows.column_names if not is_index(name)]
    return _rows("table", rows, (labels, beside), where, {"features": features})


def _rows(
    stem: str, rows: pa.Table, targets: tuple[Any, Columns], where: str, more: Section
) -> tuple[str, bytes, Section]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from trainables.data.readers.arrays import as_labels

    labels, beside = targets
    with _user_errors():
        values = as_labels(labels, where)
    if len(values) != rows.num_rows:
        raise UserError(
            f"{where}: there are {rows.num_rows} samples, and labels of shape {values.shape}"
        )
    columns: dict[str, object] = {_LABEL: values}
    named: Section = {"label": _LABEL}
    if values.ndim == 2:
        columns = {f"{_LABEL}_{k}": column for k, column in enumerate(values.T)}
        named = {"labels" if values.dtype.kind == "b" else "soft_labels": list(columns)}
    columns |= beside
    named |= {name: name for name in beside}
    for name, column in columns.items():
        if name in rows.column_names:
            raise UserError(f"{where}: a column of X is called {name!r}; give it another name")
        rows = rows.append_column(name, pa.array(column))
    stream = io.BytesIO()
    pq.write_table(rows, stream)
    data = stream.getvalue()
    return f"{stem}-{digest_of(data)}", data, named | more


def _by_part(given: tuple[Any, ...]) -> dict[str, object]:
    """The parts of data by name, from (train, test) or (train, validation, test)."""
    train, *held, test = given
    return {"train": train, "test": test, **dict(zip(("validation",), held, strict=False))}


def _groups(raw: Any, count: int, where: str) -> npt.NDArray[Any]:
    """Groups (N,) as text."""
    from trainables.data.labelling.groups import check_none_missing, names_of_groups

    with _user_errors(f"{where}: "):
        names, missing = names_of_groups("groups", raw, count)
        check_none_missing("group", missing)
    return names


def _weights(raw: Any, count: int, where: str) -> npt.NDArray[Any]:
    from trainables.data.core.types import without_mask

    with _user_errors():
        weights = without_mask(raw, f"{where}: weights")
    if weights.shape != (count,) or weights.dtype.kind not in "biuf":
        raise UserError(
            f"{where}: there are {count} samples, and weights of shape {weights.shape} and type "
            f"{weights.dtype}; allowed: a number for each"
        )
    return weights
