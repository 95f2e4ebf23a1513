"""Reads the rows that `init` looks at, and finds their label and the test file beside them."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sweeps.drafting.draft_columns import LABELS, label_column
from sweeps.errors import UserError
from sweeps.messages.formatting import counted
from trainables.data.readers.files import Form
from trainables.data.readers.index_columns import is_index
from trainables.plugins.arguments import few

if TYPE_CHECKING:
    import pyarrow as pa

    from trainables.data.readers.tabular import TabularFiles

_NUMBER: Final = re.compile(r"\d+")
_SPLITS: Final = {"test": ("test",), "validation": ("validation", "valid", "val", "dev")}


@dataclass(frozen=True)
class TrainingRows:
    """The rows of training files.

    Attributes:
        path: The file or folder.
        table: Its columns; of images, a digest.
        label: The column of the labels.
        lacking: Columns that some file lacks, with the reason.
        beside: The files of the test and validation splits, if they have labels.
        comments: What is to be said about the label and these files.
    """

    path: Path
    table: pa.Table
    label: str
    lacking: dict[str, str]
    beside: dict[str, Path]
    comments: tuple[str, ...]

    @property
    def options(self) -> dict[str, Any]:
        """Options of ``dataset`` for these files, and for rows without a label."""
        options = {option: str(path) for option, path in self.beside.items()}
        return options | ({"on_bad_sample": "skip"} if self.table[self.label].null_count else {})


def files_beside(train: Path) -> dict[str, Path]:
    """The files of the test and the validation split beside a training file or pattern."""
    found: dict[str, Path] = {}
    for option, names in _SPLITS.items():
        tried = [
            train.with_name(re.sub(word, name, train.name, flags=re.IGNORECASE))
            for word in ("train", "training")
            for name in names
        ]
        if there := [path for path in tried if path != train and any(path.parent.glob(path.name))]:
            found[option] = there[0]
    return found


def pattern_of(files: Sequence[Path]) -> Path:
    """The first file, or ``train-*.parquet`` for shards, whose names differ in numbers only."""
    alike = {_NUMBER.sub("#", file.name) for file in files}
    if len(alike) > 1 or (len(files) == 1 and not re.search(r"\d+-of-\d+", files[0].name)):
        return files[0]
    head, _, tail = re.split(r"(\d+)", files[0].name, maxsplit=1)
    return files[0].with_name(f"{head}*{_NUMBER.split(tail)[-1]}")


def read_rows(path: Path, form: Form, beside: Mapping[str, Path]) -> TrainingRows:
    """The rows of a file, a folder or a pattern.

    The files ``beside`` them are splits if they have labels; ``predict`` reads others.

    Raises:
        OSError, ValueError: A file cannot be read.
        UserError: No column looks like a label.
    """
    import pyarrow as pa

    from trainables.data.readers.tabular import open_tabular

    files = open_tabular("data", path, form)
    names = [name for name in files.names if not is_index(name)]
    lacking = {
        name: f"is not in {Path(file.path).name}"
        for file in files.files
        for name in names
        if name not in file.schema.names
    }
    table = pa.table({name: _column(files, name) for name in names if name not in lacking})
    if (label := label_column(table)) is None:
        raise UserError(
            f"none of its columns ({few(names)}) looks like a label; call one {LABELS[0]}, or "
            "write the sweep file by hand",
            "data",
            path,
        )
    comments = []
    if empty := table[label].null_count:
        comments.append(f"{counted(empty, 'row')} without {label}: skipped")
    kept = {}
    for option, place in beside.items():
        others = open_tabular(option, place, form)
        if _has_labels(others, label):
            kept[option] = place
            own = others.names
            lacking |= {name: f"is not in {place.name}" for name in names if name not in own}
        else:
            comments.append(
                f"{place.name} has no labels in a column {label}: it is no {option} split; "
                "`calsweep predict` reads it"
            )
    return TrainingRows(path, table, label, lacking, kept, tuple(comments))


def _has_labels(files: TabularFiles, label: str) -> bool:
    """Whether there are labels; benchmarks hide those of their tests as -1."""
    if label not in files.names:
        return False
    return not {*files.as_it_is(label).unique().to_pylist()} <= {None, -1}


def _column(files: TabularFiles, name: str) -> pa.ChunkedArray:
    import pyarrow as pa

    if files.content(name, "") != "bytes":
        return files.as_it_is(name)
    return pa.chunked_array([pa.array(_digests(files.values(name)), pa.binary())])


def _digests(images: Iterator[Any]) -> Iterator[bytes | None]:
    for image in images:
        content = image["bytes"] if isinstance(image, dict) else image
        yield content and hashlib.blake2b(content, digest_size=16).digest()
