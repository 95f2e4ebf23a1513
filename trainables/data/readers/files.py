"""Finds the files at a path, folder, pattern or URI."""

from __future__ import annotations

import os
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, TypeAlias

from trainables.files.storage import open_uri

if TYPE_CHECKING:
    from pyarrow import fs

PathOrUri: TypeAlias = str | os.PathLike[str]


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
    if pattern:
        return source, _matching(option, text, source, place, pattern)
    kind = source.get_file_info(place).type
    if kind is fs.FileType.NotFound:
        raise FileNotFoundError(f"{option}={text} does not exist")
    if kind is fs.FileType.File:
        return source, (place,)
    found = tuple(
        sorted(
            name
            for name in _files_below(source, place)
            if name.endswith(tuple(suffixes)) and not _is_hidden(name.removeprefix(place))
        )
    )
    if not found:
        raise FileNotFoundError(
            f"{option}={text} is a folder without any {' or '.join(suffixes)} file"
        )
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


def _matching(
    option: str, text: str, source: fs.FileSystem, folder: str, pattern: str
) -> tuple[str, ...]:
    from pyarrow import fs  # slow to import

    if source.get_file_info(folder).type is not fs.FileType.Directory:
        raise FileNotFoundError(f"{option}={text}: there is no folder {folder}")
    wanted = pattern.split("/")

    def matches(path: str) -> bool:
        names = path.removeprefix(folder).strip("/").split("/")
        return len(names) == len(wanted) and all(map(fnmatchcase, names, wanted))

    found = sorted(
        path
        for path in _files_below(source, folder)
        if matches(path) and not _is_hidden(path.removeprefix(folder))
    )
    if not found:
        raise FileNotFoundError(f"{option}={text} matches no file")
    return tuple(found)


def _files_below(source: fs.FileSystem, folder: str) -> list[str]:
    from pyarrow import fs  # slow to import

    inside = source.get_file_info(fs.FileSelector(folder, recursive=True))
    return [info.path for info in inside if info.type is fs.FileType.File]


def _is_hidden(path: str) -> bool:
    return any(part.startswith(".") for part in path.split("/") if part)
