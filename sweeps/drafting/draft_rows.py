"""Reads the rows that `init` looks at, and finds their label and the test file beside them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sweeps.drafting.draft_columns import LABELS, label_column
from sweeps.errors import UserError
from sweeps.messages.formatting import counted
from trainables.data.readers.files import Form
from trainables.data.readers.index_columns import is_index
from trainables.plugins.arguments import few

if TYPE_CHECKING:
    import pyarrow as pa

    from trainables.data.readers.tabular import TabularFiles


@dataclass(frozen=True)
class TrainingRows:
    """The rows of training files.

    Attributes:
        path: The file or folder.
        table: Its columns; of images, a digest.
        label: The column of the labels.
        lacking: Columns that some file lacks, with the reason.
        test: The file of the test split; None if there is none with labels.
        comments: What is to be said about the label and the test file.
    """

    path: Path
    table: pa.Table
    label: str
    lacking: dict[str, str]
    test: Path | None
    comments: tuple[str, ...]

    @property
    def options(self) -> dict[str, Any]:
        """Options of ``dataset`` for the test file and for rows without a label."""
        options = {} if self.test is None else {"test": str(self.test)}
        return options | ({"on_bad_sample": "skip"} if self.table[self.label].null_count else {})


def read_rows(path: Path, form: Form, beside: Path | None) -> TrainingRows:
    """The rows of a file or folder.

    The file ``beside`` it is the test split if it has labels; ``predict`` reads others.

    Raises:
        OSError, ValueError: A file cannot be read.
        UserError: No column looks like a label.
    """
    import pyarrow as pa

    from trainables.data.readers.tabular import open_tabular

    files = open_tabular("--data", path, form)
    names = [name for name in files.names if not is_index(name)]
    lacking = {
        name: f"is not in {Path(file.path).name}"
        for file in files.files
        for name in names
        if name not in file.schema.names
    }
    columns = {name: _column(files, name) for name in names if name not in lacking}
    table = pa.table(columns)
    label = label_column(table)
    if label is None:
        raise UserError(
            f"--data {path}: none of its columns ({few(names)}) looks like a label; call one "
            f"{LABELS[0]}, or write the sweep file by hand"
        )
    comments = []
    if empty := table[label].null_count:
        comments.append(f"{counted(empty, 'row')} without {label}: skipped")
    if beside is not None:
        others = open_tabular("--data", beside, form).names
        if label in others:
            lacking |= {name: f"is not in {beside.name}" for name in names if name not in others}
        else:
            comments.append(
                f"{beside.name} has no column {label}: it is no test split; `calsweep predict` "
                "reads it"
            )
            beside = None
    return TrainingRows(path, table, label, lacking, beside, tuple(comments))


def _column(files: TabularFiles, name: str) -> pa.ChunkedArray:
    import pyarrow as pa

    if files.content(name, "") != "bytes":
        return files.as_it_is(name)
    return pa.chunked_array([pa.array(_digests(files.values(name)), pa.binary())])


def _digests(images: Iterator[Any]) -> Iterator[bytes | None]:
    for image in images:
        content = image["bytes"] if isinstance(image, dict) else image
        yield content and hashlib.blake2b(content, digest_size=16).digest()
