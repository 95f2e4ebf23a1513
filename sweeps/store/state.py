"""Whether a sweep runs, which process runs it, and how it ended."""

from __future__ import annotations

import fcntl
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sweeps.errors import SweepInterruptedError, UserError, first_line
from sweeps.messages.redaction import redact
from sweeps.results.so_far import SweepState
from sweeps.store.lease import LAPSES_AFTER, Holder, read_lease
from sweeps.store.lease import NAME as LEASE
from sweeps.store.sweep_store import LOCK, SweepStore

_FAILURE = "failure.txt"
_RECENT_SECONDS = 3 * LAPSES_AFTER  # clocks of an object store and this machine may differ


def state_of(store: SweepStore) -> SweepState:
    """A sweep with a result has finished or failed, even if its driver still writes to MLflow."""
    ended = ended_state(store)
    if store.load_answer() is None and is_held(store):
        return "running"
    return ended


def ended_state(store: SweepStore) -> SweepState:
    """How a sweep ended that does not run."""
    if store.folder.exists(_FAILURE):
        return "failed"
    return "stopped" if store.load_answer() is None else "finished"


def failure_of(store: SweepStore) -> str | None:
    """The error that ended a sweep; None if it did not fail."""
    said = store.folder.read_if_exists(_FAILURE)
    return None if said is None else said.decode(errors="replace")


def is_held(store: SweepStore) -> bool:
    """Whether a process runs the sweep now: it has the lock, or has just renewed its lease."""
    if store.folder.is_local and _is_locked(Path(store.folder.path) / LOCK):
        return True
    renewed = store.folder.modified(LEASE)
    return renewed is not None and time.time() - renewed < _RECENT_SECONDS


def _is_locked(path: Path) -> bool:
    with suppress(FileNotFoundError, PermissionError), path.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:  # a file system without locks
            return False
    return False


def holder_of(store: SweepStore) -> Holder | None:
    """The process that runs a sweep; None if no process does, or it is unknown."""
    if not is_held(store):
        return None
    if (holder := read_lease(store.folder)) is not None:
        return holder if holder.host else None
    with suppress(ValueError):
        pid, _, host = (store.folder.read_if_exists(LOCK) or b"").decode().partition(" on ")
        return Holder(host, int(pid))
    return None


@contextmanager
def failure_noted(store: SweepStore) -> Iterator[None]:
    """Context: an error that ends the sweep is stored, so that its state is ``failed``."""
    with suppress(OSError):
        store.folder.delete(_FAILURE)
    try:
        yield
    except (UserError, SweepInterruptedError):
        raise
    except Exception as error:
        with suppress(OSError):  # of the storage; the error itself matters more
            store.folder.write(_FAILURE, redact(first_line(error)).encode())
        raise
