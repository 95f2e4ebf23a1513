"""A lease that keeps a sweep to one driver in storages without locks, such as object stores."""

from __future__ import annotations

import json
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace

from sweeps.errors import NameTakenError, UserError
from sweeps.messages.reporter import LOG, Reporter, logger
from sweeps.search.record import known_fields
from trainables.files.storage import Folder

NAME = "driver.lease"
RENEWED_EVERY = 5.0  # seconds
LAPSES_AFTER = 20.0  # seconds without renewal


@dataclass(frozen=True)
class Holder:
    """The process that runs a sweep; unknown if it has no host.

    Attributes:
        holder: Id of its lease.
        renewals: How often it has renewed the lease.
    """

    host: str = ""
    pid: int = 0
    holder: str = ""
    renewals: int = 0

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}" if self.host else "another process"


class Lease:
    """A file in the sweep's folder that names its driver. The driver renews it regularly.

    `on_lost` is called from another thread when another process has taken over the sweep.
    """

    def __init__(self, folder: Folder, on_lost: Callable[[], object]) -> None:
        self._folder = folder
        self._on_lost = on_lost
        self._lost: UserError | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._keep, daemon=True)
        self._mine = Holder(socket.gethostname(), os.getpid(), uuid.uuid4().hex)
        self._renewed = _now()

    def renew(self) -> None:
        self._folder.write(NAME, json.dumps(asdict(self._mine)).encode())
        self._mine = replace(self._mine, renewals=self._mine.renewals + 1)
        self._renewed = _now()

    def check(self) -> None:
        """Raise UserError if another driver has taken over; it may even have finished since."""
        if (holder := read_lease(self._folder)) is None:
            raise UserError(
                f"the lease of the sweep in {self._folder.uri} is gone: this process did not renew "
                f"it for more than {LAPSES_AFTER:.0f} s, and another one took the sweep up"
            )
        if holder.holder not in ("", self._mine.holder):
            raise NameTakenError(
                f"the sweep in {self._folder.uri} has just been taken up by {holder}"
            )

    def check_if_late(self) -> None:
        """:meth:`check` if the last renewal is long ago; raises if the lease was lost.

        Call it before writing, because a suspended process resumes in the middle of its work.
        """
        if self._lost is not None:
            raise self._lost
        if _now() - self._renewed > LAPSES_AFTER / 2:
            self.check()

    def keep(self) -> None:
        self._thread.start()

    def stop_renewing(self) -> None:
        """Stop renewing; the lease expires unless it is released."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()

    def _keep(self) -> None:
        while not self._ended.wait(RENEWED_EVERY):
            try:
                self.check()
                self.renew()
            except UserError as error:  # this process was suspended, and another one took over
                logger.error("stopped: %s", error)
                self._lost = error
                self._on_lost()
                return
            except OSError as error:
                logger.warning("the lease could not be renewed: %s", error)

    def give_back(self) -> None:
        """Delete the lease unless another driver has it; if that fails, it expires."""
        with suppress(OSError):
            found = read_lease(self._folder)
            if found is not None and found.holder == self._mine.holder:
                self._folder.delete(NAME)


@contextmanager
def lease(
    folder: Folder,
    reporter: Reporter = LOG,
    on_lost: Callable[[], object] = lambda: None,
) -> Iterator[Lease]:
    """Context: holds the lease of the folder and keeps renewing it.

    The lease of a killed driver expires, because it is no longer renewed. Clocks of different
    machines are not compared: the next driver watches the lease for that time. A process that did
    not renew its lease has lost it once another one took over the sweep.

    Raises:
        UserError: Another process holds it.
    """
    _wait_until_free(folder, reporter)
    held = Lease(folder, on_lost)
    held.renew()
    time.sleep(1.0)  # for another process that found it free at the same moment
    held.check()
    held.keep()
    try:
        yield held
    finally:
        held.stop_renewing()
        held.give_back()


def _wait_until_free(folder: Folder, reporter: Reporter) -> None:
    if (first := read_lease(folder)) is None:
        return
    reporter.stage(f"Looking whether {first} still runs this sweep ({LAPSES_AFTER:.0f} s)")
    until = _now() + LAPSES_AFTER
    while _now() < until:
        time.sleep(1.0)
        if (now := read_lease(folder)) is None:
            return
        if now != first:
            raise NameTakenError(
                f"the sweep in {folder.uri} is being run by {now}; wait for it or stop it first"
            )


def read_lease(folder: Folder) -> Holder | None:
    """The process that has the lease; None if no process has."""
    if (data := folder.read_if_exists(NAME)) is None:
        return None
    try:
        return Holder(**known_fields(Holder, json.loads(data)))
    except (ValueError, TypeError):  # damaged
        return Holder()


def _now() -> float:
    """Seconds of a clock that also runs while the machine sleeps, if available."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))
