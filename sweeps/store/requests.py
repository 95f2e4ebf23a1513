"""What users ask of the process that runs a sweep: files in its folder, which that process reads.

So it is asked from any machine or container that reaches the storage, and no process is signalled
by a number that may be another one's there.
"""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from sweeps.messages.reporter import Reporter, logger
from sweeps.store.journal import note
from trainables.files.storage import Folder

if TYPE_CHECKING:
    from sweeps.search.trial_queue import TrialQueue  # imports Optuna

_FOLDER: Final = "requests"
_SECONDS_BETWEEN_LOOKS: Final = 1.0
_SECONDS_IN_OBJECT_STORES: Final = 5.0

Kind = Literal["stop", "drop", "retry"]


@dataclass(frozen=True)
class Request:
    """What is asked of a sweep; `trials` are numbers, `by` is ``user@host``."""

    kind: Kind
    trials: tuple[int, ...] = ()
    by: str = ""


def ask(folder: Folder, request: Request) -> str:
    """Ask it of the process that runs the sweep in a folder; returns the name of the request."""
    name = f"{time.time_ns():020}-{request.kind}-{uuid.uuid4().hex[:8]}"
    (folder / _FOLDER).write(name, json.dumps(asdict(request)).encode())
    return name


def is_open(folder: Folder, name: str) -> bool:
    """Whether a request has not been taken."""
    return (folder / _FOLDER).exists(name)


def withdraw(folder: Folder, name: str) -> None:
    (folder / _FOLDER).delete(name)


def take(folder: Folder, *kinds: Kind) -> list[Request]:
    """The open requests of these kinds, oldest first, which are then no longer open."""
    place, found = folder / _FOLDER, []
    for name in place.names():
        if any(f"-{kind}-" in name for kind in kinds):
            with suppress(FileNotFoundError, ValueError, TypeError):
                values: dict[str, Any] = json.loads(place.read(name))
                found.append(Request(**{**values, "trials": tuple(values["trials"])}))
            place.delete(name)
    return found


def _pause(folder: Folder) -> float:
    return _SECONDS_BETWEEN_LOOKS if folder.is_local else _SECONDS_IN_OBJECT_STORES


@contextmanager
def stopped_on_request(folder: Folder, stop: Callable[[], object]) -> Iterator[None]:
    """Context: a request to stop calls `stop`, from another thread; older ones are dropped."""
    over = threading.Event()
    pause = _pause(folder)

    def watch() -> None:
        while not over.wait(pause):
            with suppress(OSError):  # the storage is away
                for request in take(folder, "stop"):
                    logger.warning("stopped by %s", request.by)
                    note(folder, "stopped", request.by)
                    stop()

    with suppress(OSError):
        take(folder, "stop")
    threading.Thread(target=watch, name="requests", daemon=True).start()
    try:
        yield
    finally:
        over.set()


class Inbox:
    """The requests about trials, looked for now and then by the process that runs the sweep."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._due = time.monotonic()

    def __call__(self) -> list[Request]:
        """What is new."""
        if time.monotonic() < self._due:
            return []
        self._due = time.monotonic() + _pause(self._folder)
        with suppress(OSError):  # the storage is away
            return take(self._folder, "drop", "retry")
        return []


def fulfil(request: Request, number: int, queue: TrialQueue, reporter: Reporter) -> bool:
    """Drop or retry a trial of a queue as asked, and report it; False if that is not possible."""
    retry = request.kind == "retry"
    done = queue.retry(number) if retry else queue.drop(number, request.by)
    if done:
        reporter.notice(f"trial {number}: {request.kind}, asked for by {request.by}")
    return done
