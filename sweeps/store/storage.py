"""Storages: whether they can be used, what is in them, and their files of JSON."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from sweeps.errors import UserError, first_line
from sweeps.messages.redaction import redact
from sweeps.messages.reporter import logger
from sweeps.search.record import known_fields
from sweeps.sweep_file.sections.fields import NAME_LENGTH, NAME_PATTERN
from trainables.files.storage import Folder

_BLOCK = 4096  # bytes
P = ParamSpec("P")
T = TypeVar("T")


@contextmanager
def storage_faults(storage: str, *others: type[Exception]) -> Iterator[None]:
    """Context: errors of the storage, and these others, are the user's, in one message."""
    reported: tuple[type[Exception], ...] = (OSError, *others)
    try:
        yield
    except reported as error:
        raise UserError(storage_fault(storage, error)) from None


def tells_storage_faults(function: Callable[P, T]) -> Callable[P, T]:
    """Decorator of functions with an argument ``storage``: :func:`storage_faults`."""
    signature = inspect.signature(function)

    @wraps(function)
    def telling(*arguments: P.args, **options: P.kwargs) -> T:
        with storage_faults(signature.bind(*arguments, **options).arguments["storage"]):
            return function(*arguments, **options)

    return telling


def check_storage(storage: str) -> None:
    """Check that files can be written to a storage, leaving nothing behind; UserError if not."""
    folder = Folder(storage)
    with storage_faults(storage, ValueError):
        if folder.is_local:
            path = Path(folder.path)
            nearest = next(each for each in (path, *path.parents) if each.exists())
            if not nearest.is_dir():
                raise NotADirectoryError(20, "Not a directory", str(nearest))
            folder = Folder(str(nearest))
        folder.write(".calsweep-write-test", bytes(_BLOCK))  # the disk is full
        folder.delete(".calsweep-write-test")


_ALLOWED = (
    "; allowed: a folder that can be written, or a URI such as s3://bucket/prefix (the "
    "variable CALSWEEP_STORAGE sets it, too)"
)


def storage_fault(storage: str, error: Exception, advice: str = _ALLOWED) -> str:
    reason = getattr(error, "strerror", None) or first_line(error)
    if (file := getattr(error, "filename", None)) and file != storage:
        reason += f" ({file})"
    return f"storage = {storage!r} cannot be used: {reason}{advice}"


def is_name(name: str) -> bool:
    """Whether a sweep may have this name, by the pattern of the sweep file."""
    return len(name) <= NAME_LENGTH and re.fullmatch(NAME_PATTERN, name) is not None


def sweep_names(storage: str) -> list[str]:
    """Names of the sweeps in a storage folder, also of unreadable ones; raises OSError."""
    folder = Folder(storage) / "sweeps"
    return [name for name in filter(is_name, folder.names()) if _may_be_sweep(folder / name)]


def _may_be_sweep(folder: Folder) -> bool:
    try:
        return folder.exists("sweep.yaml")
    except OSError:  # another user's
        return True


@contextmanager
def left_out_if_unreadable(storage: str, name: str) -> Iterator[None]:
    """Context: a sweep that is damaged or another user's is left out."""
    try:
        yield
    except (UserError, OSError) as error:
        sweep_names(storage)  # raises if the storage is away
        logger.warning("sweep %r is left out: %s", name, first_line(error))


class DamagedFileError(Exception):
    """A file that another process or user has damaged; the message names it."""


def load_json(folder: Folder, name: str, convert: Callable[[Any], T]) -> T | None:
    """The content of a JSON file; None if there is none. Raises DamagedFileError, or OSError."""
    try:
        data = folder.read_if_exists(name)
        return None if data is None else convert(json.loads(data))
    except (IsADirectoryError, ValueError, TypeError, LookupError, ArithmeticError):
        raise DamagedFileError(f"{folder.uri}/{name} is damaged") from None


def read_json(
    folder: Folder, name: str, convert: Callable[[Any], T], missing: T, without: str
) -> T:
    """The content of a JSON file that a sweep can do without.

    It is `missing` if there is no file, or it is damaged, which is logged.
    """
    try:
        found = load_json(folder, name, convert)
    except DamagedFileError as error:
        logger.warning("%s; %s", error, without)
        return missing
    return missing if found is None else found


def read_list(folder: Folder, name: str, kind: type[T]) -> list[T]:
    """A JSON file with a list of dataclasses; empty if there is none, or it is damaged."""

    def values(kept: Any) -> list[T]:
        return [kind(**known_fields(kind, each)) for each in kept]

    return read_json(folder, name, values, [], "the sweep continues without")


def write_guarded(folder: Folder, name: str, data: bytes) -> None:
    """Write a file of text, for this user alone if it holds credentials."""
    text = data.decode(errors="replace")
    folder.write(name, data, private=redact(text) != text)
