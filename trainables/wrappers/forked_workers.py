"""Forks Ray's workers from a process that has imported what trials need, except Ray.

A worker of its own imports PyTorch and others, which takes two CPU seconds and 300 MiB. Forked
workers share the memory of these modules. Ray reads its environment variables when it is imported,
so each worker imports Ray itself.

Ray starts this file where it would start its own ``setup_worker.py``, with the same arguments. It
asks the server for a worker and waits for the worker's end. If the server does not answer, it
becomes Ray's ``setup_worker.py``.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import re
import runpy
import select
import shutil
import signal
import socket
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path

ADDRESS = "CALSWEEP_WORKER_SERVER"
"""Environment variable: path of the server's socket."""

_LENGTH = 8  # bytes of a number


MODULES = (
    "trainables.trials.making",
    "trainables.metrics.inference.intervals",
    "scipy.optimize",
    *("fsspec", "pandas", "pyarrow.fs", "pydantic.main", "requests"),  # Ray Tune imports them
)
"""What trials need, except Ray."""


def serve(listener: socket.socket, modules: Sequence[str] = MODULES) -> None:
    """Fork a worker for each connection, until stdin is closed; then remove the socket's folder."""
    gc.disable()  # collections find nothing in many new modules
    for name in modules:  # alone: a server of other modules must not import trainables
        import_module(name)
    gc.enable()
    gc.freeze()  # collections would copy the shared memory
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # ended workers leave nothing behind
    while _asked_before_end(listener):
        connection, _ = listener.accept()
        try:
            arguments, environment, folder, outputs = _request(connection)
        except (OSError, ValueError):  # who asked has gone
            continue
        if os.fork() == 0:
            listener.close()
            connection.sendall(b"1")  # stays open until this process ends
            _become_worker(arguments, environment, folder, outputs)
            return
        connection.close()
        for output in outputs:
            os.close(output)
    shutil.rmtree(Path(listener.getsockname()).parent, ignore_errors=True)


def _asked_before_end(listener: socket.socket) -> bool:
    ready, _, _ = select.select([listener, sys.stdin], [], [])
    return sys.stdin not in ready


def _request(connection: socket.socket) -> tuple[list[str], dict[str, str], str, list[int]]:
    head, outputs, _, _ = socket.recv_fds(connection, _LENGTH, 2)
    with connection.makefile("rb") as stream:
        arguments, environment, folder = json.loads(stream.read(int.from_bytes(head, "big")))
    return arguments, environment, folder, outputs


def _become_worker(
    arguments: list[str], environment: dict[str, str], folder: str, outputs: list[int]
) -> None:
    """Act as if Ray had started this process with its own program."""
    import numpy as np

    os.setpgrp()  # Ray ends a worker's process group, which would be the driver's
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for number, file in enumerate([os.open(os.devnull, os.O_RDONLY), *outputs]):
        os.dup2(file, number)
        os.close(file)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    given = environment.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:0] = [path for path in given if path and path not in sys.path]
    np.random.seed()  # noqa: NPY002  # otherwise all workers would draw the same numbers
    sys.argv = arguments
    runpy.run_path(arguments[0], run_name="__main__")


def launch(arguments: list[str]) -> None:
    """Have a worker forked, and return when it has ended; or become Ray's ``setup_worker.py``."""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--serialized-runtime-env-context", dest="context", default="{}")
    parser.add_argument("--language")
    options, worker = parser.parse_known_args(arguments)
    context = json.loads(options.context)
    variables = context.pop("env_vars", {})
    if context.pop("py_executable", sys.executable) == sys.executable and not any(context.values()):
        environment = {**os.environ, **{name: _expanded(variables[name]) for name in variables}}
        with suppress(OSError), socket.socket(socket.AF_UNIX) as connection:
            connection.connect(os.environ[ADDRESS])
            request = json.dumps([worker, environment, os.getcwd()]).encode()
            socket.send_fds(connection, [len(request).to_bytes(_LENGTH, "big")], [1, 2])
            connection.sendall(request)
            if connection.recv(1):  # it runs, so there must not be another one, whatever happens
                with suppress(OSError):
                    connection.recv(1)
                return
    setup = str(Path(worker[0]).with_name("setup_worker.py"))
    os.execv(sys.executable, [sys.executable, setup, *arguments])


def _expanded(value: str) -> str:
    """The value with the variables in it, as in Ray's ``update_envs``."""
    return re.sub(r"\$\{[A-Z0-9_]+\}", "", os.path.expandvars(value))


if __name__ == "__main__":
    launch(sys.argv[1:])
