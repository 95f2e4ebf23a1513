"""Who did what with a sweep: a small file for each act, so that no process waits for another."""

from __future__ import annotations

import getpass
import json
import os
import socket
import time
import uuid
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

from trainables.files.storage import Folder

_FOLDER: Final = "journal"

Act = Literal[
    "started", "resumed", "interrupted", "stopped", "dropped", "retried", "registered", "promoted"
]


SUBMITTED_BY: Final = "CALSWEEP_SUBMITTED_BY"
"""The variable of a job with the user who submitted it."""


def by_this_user() -> str:
    """``user@host``; in a job that of the user who submitted it."""
    if submitter := os.environ.get(SUBMITTED_BY):
        return submitter
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container may have no name for its user
        user = "unknown"
    return f"{user}@{socket.gethostname()}"


@dataclass(frozen=True)
class Entry:
    """What was done, when (in seconds since the epoch), and ``user@host`` who did it.

    `trials` are numbers, of those that were dropped or retried.
    """

    act: Act
    at: float
    by: str
    trials: tuple[int, ...] = ()

    def __str__(self) -> str:
        """``2026-11-29 12:00 UTC: dropped by ann@host (trials 1, 2)``."""
        moment = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(self.at))
        which = f" (trials {', '.join(map(str, self.trials))})" if self.trials else ""
        return f"{moment}: {self.act} by {self.by}{which}"


def note(folder: Folder, act: Act, by: str | None = None, trials: Sequence[int] = ()) -> None:
    """Note an act in a sweep's folder, of this user if `by` is None.

    If the storage fails, the act itself matters more.
    """
    entry = Entry(act, time.time(), by or by_this_user(), tuple(trials))
    name = f"{time.time_ns():020}-{uuid.uuid4().hex[:8]}.json"
    with suppress(OSError):
        (folder / _FOLDER).write(name, json.dumps(asdict(entry)).encode())


def read_journal(folder: Folder) -> list[Entry]:
    """All acts, oldest first; damaged entries are left out."""
    place = folder / _FOLDER
    return [entry for name in place.names() if (entry := _read(place, name)) is not None]


def owner_of(folder: Folder) -> str:
    """Who started a sweep; empty for a sweep of an earlier version."""
    place = folder / _FOLDER
    first = next(iter(place.names()), None)
    entry = None if first is None else _read(place, first)
    return entry.by if entry is not None and entry.act == "started" else ""


def _read(place: Folder, name: str) -> Entry | None:
    with suppress(OSError, ValueError, TypeError, KeyError):
        values: dict[str, Any] = json.loads(place.read(name))
        return Entry(values["act"], float(values["at"]), values["by"], tuple(values["trials"]))
    return None
