"""Starts the process from which the workers of Ray on this machine are forked."""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from sweeps.messages.reporter import logger
from trainables.runtime.temporary import temporary_folder

_PROGRAM = """
import socket
from trainables.wrappers.forked_workers import serve
serve(socket.socket(fileno={}))
"""


_servers: list[tuple[subprocess.Popen[bytes], Path]] = []
"""At most one, and the file of what it prints to stderr."""
_faults: list[str] = []  # why there is none; each is logged once


@cache
def worker_server() -> str:
    """The path of the socket of a server that ends with this process.

    Raises:
        OSError: The system's temporary folder has a long path, or can hold no sockets.
    """
    folder = temporary_folder("calsweep-server-")
    address = str(folder / "socket")
    said = folder / "errors"
    with socket.socket(socket.AF_UNIX) as listener, said.open("wb") as errors:
        try:
            listener.bind(address)
        except OSError as error:
            shutil.rmtree(folder)
            _faults.append(str(error))
            raise
        listener.listen()
        with blocked(signal.SIGINT):  # Ctrl-C is for the driver alone, as with Ray's own processes
            server = subprocess.Popen(
                [sys.executable, "-P", "-c", _PROGRAM.format(listener.fileno())],
                stdin=subprocess.PIPE,  # it ends when this is closed
                stdout=subprocess.DEVNULL,
                stderr=errors,
                pass_fds=[listener.fileno()],
                env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            )
    atexit.register(_end, server, address)
    _servers.append((server, said))
    return address


def log_if_not_forked() -> None:
    """Log the error that ended the server of this process or prevented it, if there was one."""
    for server, errors in _servers:
        if (server.poll() or 0) > 0:
            last = errors.read_text(errors="replace").strip().rpartition("\n")[2]
            _faults.append(last or "without an error message")
    while _faults:
        logger.warning("workers are not forked, so they start more slowly: %s", _faults.pop())


@contextmanager
def blocked(number: signal.Signals) -> Iterator[None]:
    """Context: processes that start in it do not get this signal."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {number})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _end(server: subprocess.Popen[bytes], address: str) -> None:
    with server:
        server.kill()
    shutil.rmtree(Path(address).parent, ignore_errors=True)
