"""Processes that are forked from one that has imported other packages.

Importing takes most of the time of a short command, and of a node of Ray. The process from which
they are forked has not imported calsweep, or Ray, which reads its environment variables when it is
imported.
"""

import json
import multiprocessing
import os
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from multiprocessing import forkserver, resource_tracker
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["tests.harness.preloaded"])
_SERVER: Any = forkserver._forkserver
_SHARED = "CALSWEEP_TESTS_FORKS"  # environment variable: how other processes reach it
BIN = Path(sys.executable).parent


def share_server() -> None:
    """Start the process from which others are forked, also for the processes of pytest-xdist."""
    _SERVER.ensure_running()
    key = getattr(_SERVER, "_forkserver_authkey", b"")  # since Python 3.14
    os.environ[_SHARED] = json.dumps([_SERVER._forkserver_address, key.hex()])


def use_shared_server() -> None:
    """Use that of the process which has started this one."""
    _SERVER._forkserver_address, key = json.loads(os.environ[_SHARED])
    _SERVER._forkserver_authkey = bytes.fromhex(key)
    _SERVER._forkserver_alive_fd = os.dup(0)  # each fork gets one
    _SERVER.ensure_running = resource_tracker.ensure_running


def act_as_started(environment: Mapping[str, str], streams: Sequence[Path]) -> None:
    """Let this forked process act as if Python had been started with these variables.

    Args:
        environment: All variables.
        streams: Files of standard input, output and error.
    """
    os.environ.clear()
    os.environ.update(environment)
    os.dup2(os.open(streams[0], os.O_RDONLY), 0)
    sys.stdin = os.fdopen(0, closefd=False)  # multiprocessing has closed it
    for descriptor, output in enumerate(streams[1:], start=1):
        os.dup2(os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND), descriptor)
    installed = [path for path in sys.path if "site-packages" in path or "/lib/python" in path]
    root = str(Path(__file__).parents[2])  # the source folder, which tests use
    given = [path for path in environment.get("PYTHONPATH", "").split(os.pathsep) if path]
    sys.path[:] = [str(BIN), *given, *installed, root]
    sys.modules.pop("sitecustomize", None)
    with suppress(ImportError):
        import sitecustomize  # noqa: F401


def end_with_tests() -> None:
    """Kill this forked process when the tests have ended, even if they are killed."""

    def wait_and_end() -> None:
        tests = multiprocessing.parent_process()
        assert tests is not None
        tests.join()
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=wait_and_end, daemon=True).start()


@cache
def worker_server(python_path: str = "") -> str:
    """As :func:`sweeps.cluster.worker_server.worker_server`, but forked.

    Args:
        python_path: A folder that Python would read first.
    """
    listener, address = listening(Path(tempfile.mkdtemp(prefix="calsweep-workers-")))
    receiver, sender = FORKS.Pipe(duplex=False)
    FORKS.Process(target=_serve, args=(listener, receiver, python_path), daemon=True).start()
    listener.close()
    receiver.close()
    _OPEN.append(sender)
    return address


_OPEN: list[Connection] = []  # as long as this process: the server ends when it is closed


def listening(folder: Path) -> tuple[socket.socket, str]:
    """A socket in a folder, and its path."""
    folder.mkdir(exist_ok=True)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(folder / "socket"))
    listener.listen()
    return listener, str(folder / "socket")


def _serve(listener: socket.socket, until_closed: Connection, python_path: str) -> None:
    from trainables.wrappers.forked_workers import serve

    nowhere = Path(os.devnull)
    variables = {"PYTHONPATH": python_path} if python_path else {}
    act_as_started({**os.environ, **variables}, [nowhere] * 3)
    os.dup2(until_closed.fileno(), 0)
    serve(listener)
