"""Finds the files at a path, folder, pattern or URI."""

from __future__ import annotations

import os
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from trainables.files.storage import open_uri
from trainables.plugins.arguments import first_line

if TYPE_CHECKING:
    from pyarrow import fs

PathOrUri: TypeAlias = str | os.PathLike[str]
Form = Literal["csv", "parquet", "jsonl", "arrow"]

TABLES: Final[dict[Form, tuple[str, ...]]] = {
    "csv": (".csv", ".tsv", ".csv.gz", ".tsv.gz"),
    "parquet": (".parquet",),
    "jsonl": (".jsonl", ".ndjson", ".jsonl.gz", ".ndjson.gz"),
    "arrow": (".arrow", ".feather"),
}
"""How the names of tables in each form end."""

TABLES_SHOWN: Final = ".csv, .tsv, .parquet, .jsonl, .arrow and .feather, also .csv.gz"
"""The usual ones, for messages."""


def form_of(path: str) -> Form | None:
    """The form of a file by its name; None if its suffix is unknown."""
    name = path.lower()
    if name.endswith(".json"):  # in folders these describe the data
        return "jsonl"
    return next((form for form, ends in TABLES.items() if name.endswith(ends)), None)


def without_pickle(error: Exception) -> str:
    """NumPy's message about a file of arrays, unless it advises to unpickle them."""
    if "allow_pickle" not in str(error):
        return first_line(error)
    return (
        "has Python objects, which run code when they are read; save numbers or text, such as "
        "labels.astype(str)"
    )


def find_files(
    option: str, path: PathOrUri, suffixes: Sequence[str]
) -> tuple[fs.FileSystem, tuple[str, ...]]:
    """The file system and the sorted files at a path or URI (``s3://``, ``gs://`` ...).

    ``path`` is a file; a folder, for all files in it with one of ``suffixes`` except hidden ones;
    or a pattern such as ``parts/*.parquet``, where ``*`` does not match a slash. ``option`` names
    it in messages.

    Raises:
        ValueError: The URI is malformed.
        FileNotFoundError: There is no file.
    """
    from pyarrow import fs  # slow to import

    text = os.fspath(path)
    source, place, pattern = _open_place(option, text)
    kind = source.get_file_info(place).type
    if pattern and kind is not fs.FileType.Directory:
        raise FileNotFoundError(f"{option}={text}: there is no folder {place}")
    if kind is fs.FileType.NotFound:
        raise FileNotFoundError(f"{option}={text} does not exist")
    if kind is fs.FileType.File:
        return source, (place,)

    wanted = pattern.split("/")

    def is_wanted(file: fs.FileInfo) -> bool:
        names: list[str] = file.path.removeprefix(place).strip("/").split("/")
        if file.type is not fs.FileType.File or any(name.startswith(".") for name in names):
            return False
        if not pattern:
            return names[-1].lower().endswith(tuple(suffixes))
        return len(names) == len(wanted) and all(map(fnmatchcase, names, wanted))

    below = source.get_file_info(fs.FileSelector(place, recursive=True))
    if not (found := tuple(sorted(file.path for file in below if is_wanted(file)))):
        without = f"is a folder without any {' or '.join(suffixes)} file"
        raise FileNotFoundError(f"{option}={text} {'matches no file' if pattern else without}")
    return source, found


def _open_place(option: str, text: str) -> tuple[fs.FileSystem, str, str]:
    """The file system, the path in it up to the first pattern, and the rest."""
    if "://" not in text:
        local = os.path.abspath(os.path.expanduser(text))
        head, tail = (local, "") if os.path.exists(local) else _cut(local)
        return (*open_uri(head), tail)
    place, mark, options = text.partition("?")  # s3://bucket/prefix?endpoint_override=...
    head, tail = _cut(place)
    try:
        source, folder = open_uri(f"{head}{mark}{options}")
    except ValueError as error:
        raise ValueError(f"{option}={text}: {error}") from error
    return source, folder, tail


def _cut(path: str) -> tuple[str, str]:
    """Splits a path before its first part with a pattern."""
    parts = path.split("/")
    fixed = next((i for i, part in enumerate(parts) if "*" in part or "[" in part), len(parts))
    return "/".join(parts[:fixed]), "/".join(parts[fixed:])
