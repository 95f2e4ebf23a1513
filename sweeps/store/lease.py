"""Keeps a sweep to one driver where its storage knows no locks, as object stores."""

from __future__ import annotations

import _thread
import json
import logging
import os
import signal
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sweeps.errors import UserError
from trainables.storage import Folder

NAME = "driver.lease"
RENEWED_EVERY = 5.0  # seconds
LAPSES_AFTER = 20.0  # seconds in which nobody renewed it

logger = logging.getLogger("calsweep")


@contextmanager
def lease(folder: Folder, on_wait: Callable[[str], None]) -> Iterator[None]:
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
    mine = {"holder": uuid.uuid4().hex, "host": socket.gethostname(), "pid": os.getpid()}
    _wait_until_free(folder, on_wait)
    ended = threading.Event()
    _renew(folder, mine, 0)
    time.sleep(1.0)  # for another one who found it free at the same moment
    _check_holder(folder, mine)
    thread = threading.Thread(target=_keep, args=(folder, mine, ended), daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        if (_read(folder) or {}).get("holder") == mine["holder"]:
            folder.delete(NAME)


def _wait_until_free(folder: Folder, on_wait: Callable[[str], None]) -> None:
    first = _read(folder)
    if first is None:
        return
    who = f"process {first['pid']} on {first['host']}"
    on_wait(f"Looking whether {who} still runs this sweep ({LAPSES_AFTER:.0f} s)")
    until = time.monotonic() + LAPSES_AFTER
    while time.monotonic() < until:
        time.sleep(1.0)
        now = _read(folder)
        if now is None:
            return
        if now != first:
            raise UserError(
                f"the sweep in {folder.uri} is being run by {who}; wait for it or stop it first"
            )


def _check_holder(folder: Folder, mine: dict[str, object]) -> None:
    holder = _read(folder) or mine
    if holder["holder"] != mine["holder"]:
        raise UserError(
            f"the sweep in {folder.uri} has just been taken up by process {holder['pid']} on "
            f"{holder['host']}"
        )


def _keep(folder: Folder, mine: dict[str, object], ended: threading.Event) -> None:
    renewals = 0
    while not ended.wait(RENEWED_EVERY):
        renewals += 1
        try:
            _check_holder(folder, mine)
            _renew(folder, mine, renewals)
        except UserError as error:  # we were away for so long that somebody took over
            logger.error("stopped: %s", error)
            _thread.interrupt_main(signal.SIGTERM)  # SIGINT is ignored in a shell's background
            return
        except OSError as error:
            logger.warning("the lease could not be renewed: %s", error)


def _read(folder: Folder) -> dict[str, object] | None:
    try:
        found: dict[str, object] = json.loads(folder.read(NAME))
    except FileNotFoundError:
        return None
    return found


def _renew(folder: Folder, mine: dict[str, object], renewals: int) -> None:
    folder.write(NAME, json.dumps({**mine, "renewals": renewals}).encode())
