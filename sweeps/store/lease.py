"""Keeps a sweep to one driver where its storage knows no locks, as object stores."""

from __future__ import annotations

import json
import logging
import os
import signal
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from sweeps.errors import UserError
from trainables.storage import Folder

NAME = "driver.lease"
RENEWED_EVERY = 5.0  # seconds
LAPSES_AFTER = 20.0  # seconds in which nobody renewed it

logger = logging.getLogger("calsweep")


class Lease:
    """A file of the sweep's folder that says who runs it, and is renewed all the time.

    Args:
        folder: The sweep's.
    """

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._mine = {"holder": uuid.uuid4().hex, "host": socket.gethostname(), "pid": os.getpid()}
        self._renewals = 0
        self._renewed = _now()

    def renew(self) -> None:
        """Show that it is held."""
        content = {**self._mine, "renewals": self._renewals}
        self._folder.write(NAME, json.dumps(content).encode())
        self._renewals += 1
        self._renewed = _now()

    def check(self) -> None:
        """Make sure that nobody else has taken the sweep up.

        Raises:
            UserError: Somebody has. Where the lease is gone too: they may have finished since.
        """
        holder = _read(self._folder)
        if holder is None:
            raise UserError(
                f"the lease of the sweep in {self._folder.uri} is gone: this process did not renew "
                f"it for more than {LAPSES_AFTER:.0f} s, and another one took the sweep up"
            )
        if holder and holder["holder"] != self._mine["holder"]:
            raise UserError(
                f"the sweep in {self._folder.uri} has just been taken up by {_who(holder)}"
            )

    def check_if_late(self) -> None:
        """The same, where it was not renewed for so long that somebody may have.

        For whoever is about to write: a process that slept goes on in the middle of what it did.
        """
        if _now() - self._renewed > LAPSES_AFTER / 2:
            self.check()

    def keep(self, ended: threading.Event) -> None:
        """Renew it until the end; SIGTERM for this process when it is lost."""
        while not ended.wait(RENEWED_EVERY):
            try:
                self.check()
                self.renew()
            except UserError as error:  # we were away for so long that somebody took over
                logger.error("stopped: %s", error)
                _wake_main_thread()
                return
            except OSError as error:
                logger.warning("the lease could not be renewed: %s", error)

    def give_back(self) -> None:
        """Delete it, unless it is another one's; where that cannot be done it lapses."""
        with suppress(OSError):
            if (_read(self._folder) or {}).get("holder") == self._mine["holder"]:
                self._folder.delete(NAME)


@contextmanager
def lease(folder: Folder, on_wait: Callable[[str], None]) -> Iterator[Lease]:
    """Hold a file of the folder as long as the block lasts, and show it by renewing that file.

    A lease that somebody left behind, killed say, lapses when nobody renews it any more. Clocks of
    different machines are not compared: whoever comes next watches it for that long.

    Whoever did not renew it for so long that somebody else took it gets a SIGTERM.

    Args:
        folder: The sweep's.
        on_wait: Told what is waited for.

    Raises:
        UserError: Another process holds it.
    """
    _wait_until_free(folder, on_wait)
    held, ended = Lease(folder), threading.Event()
    held.renew()
    time.sleep(1.0)  # for another one who found it free at the same moment
    held.check()
    thread = threading.Thread(target=held.keep, args=(ended,), daemon=True)
    thread.start()
    try:
        yield held
    finally:
        ended.set()
        thread.join()
        held.give_back()


def _wait_until_free(folder: Folder, on_wait: Callable[[str], None]) -> None:
    first = _read(folder)
    if first is None:
        return
    on_wait(f"Looking whether {_who(first)} still runs this sweep ({LAPSES_AFTER:.0f} s)")
    until = _now() + LAPSES_AFTER
    while _now() < until:
        time.sleep(1.0)
        now = _read(folder)
        if now is None:
            return
        if now != first:
            raise UserError(
                f"the sweep in {folder.uri} is being run by {_who(now)}; wait for it or stop it "
                "first"
            )


def _wake_main_thread() -> None:
    """End the main thread by SIGTERM, also if it sleeps; in the background SIGINT is ignored.

    ``_thread.interrupt_main`` would let it sleep on.
    """
    main = threading.main_thread().ident
    assert main is not None
    signal.pthread_kill(main, signal.SIGTERM)


def _who(holder: dict[str, Any]) -> str:
    return f"process {holder['pid']} on {holder['host']}" if holder else "another process"


def _read(folder: Folder) -> dict[str, Any] | None:
    """None where there is none; empty where it is damaged, which tells nothing of its holder."""
    try:
        found: dict[str, Any] = json.loads(folder.read(NAME))
    except FileNotFoundError:
        return None
    except ValueError:
        return {}
    return found


def _now() -> float:
    """Seconds that go on while the machine sleeps, where there is such a clock."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))
