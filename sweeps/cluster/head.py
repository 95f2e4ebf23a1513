"""Reports a cluster whose head does not answer, before Ray ends the driver without a word."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Final

_SECONDS: Final = 5.0  # between two calls, and for an answer
_MOST_FAILURES: Final = 2  # in a row; Ray ends the driver after a minute


@contextmanager
def head_watched(
    addresses: Iterable[str], report: Callable[[str], object], seconds: float = _SECONDS
) -> Iterator[None]:
    """Context: `report` is called with the address of a server that no longer answers.

    It is called again only if the server has answered in between. The first address that answers at
    the start is watched, as this machine may not reach the one that Ray states.
    """
    over = threading.Event()

    def watch() -> None:
        address = next((each for each in addresses if _answers(each, seconds)), None)
        failures = 0
        while address is not None and not over.wait(seconds):
            failures = 0 if _answers(address, seconds) else failures + 1
            if failures == _MOST_FAILURES:
                report(address)

    thread = threading.Thread(target=watch, name="head", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()


def _answers(address: str, seconds: float) -> bool:
    host, _, port = address.rpartition(":")
    if not port.isdigit():  # such as "auto"
        return False
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=seconds).close()
    except OSError:
        return False
    return True
