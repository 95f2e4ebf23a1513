"""Sweeps that run in the background on this machine: started, and stopped."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from sweeps.errors import SweepFailedError, UserError
from sweeps.store.journal import by_this_user
from sweeps.store.requests import Request, ask
from sweeps.store.state import holder_of, is_held, state_of
from sweeps.store.storage import tells_storage_faults
from sweeps.store.sweep_store import SweepStore

_SECONDS_TO_STOP = 120.0  # the driver first brings MLflow up to date
_SECONDS_BETWEEN_LOOKS = 0.2


@tells_storage_faults
def start_detached(name: str, storage: str, arguments: Sequence[str]) -> tuple[int, str]:
    """Start a ``calsweep`` command that runs a sweep, and wait until the sweep has begun.

    Returns its process, and the file of its output.

    Raises:
        UserError: The command has refused its input.
        SweepFailedError: It has failed.
    """
    store = SweepStore(storage, name)
    log = Path(f"{name}.log")
    try:
        before = log.stat().st_size if log.exists() else 0
        with log.open("ab") as output:
            process = subprocess.Popen(
                # Without -P, a folder `calsweep` in the working folder would be imported.
                [sys.executable, "-P", "-m", "calsweep", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,  # closing the terminal does not reach it
            )
    except OSError as error:
        raise UserError(f"{log.absolute()}: {error.strerror}", "detach") from None
    while process.poll() is None and not _runs(store, process.pid):
        time.sleep(_SECONDS_BETWEEN_LOOKS)
    if process.returncode:
        said = log.read_bytes()[before:].decode(errors="replace").strip()
        kind = UserError if process.returncode == 2 else SweepFailedError
        raise kind(said.replace("calsweep: ", ""))
    process.returncode = 0  # not waited for, which Python would otherwise warn about
    return process.pid, str(log)


def _runs(store: SweepStore, pid: int) -> bool:
    holder = holder_of(store)
    return holder is not None and (holder.pid, store.exists()) == (pid, True)


@tells_storage_faults
def stop_here(name: str, storage: str) -> bool:
    """Ask the process that runs a sweep to stop cleanly, and wait; False if there is no such sweep.

    Raises:
        UserError: The sweep does not run.
        SweepFailedError: It does not end.
    """
    store = SweepStore(storage, name)
    if not store.exists():
        return False
    if not is_held(store):
        raise UserError(
            f"sweep {name!r} in {store.storage} does not run: it is {state_of(store)}; to stop a "
            "job of a cluster, give the cluster's address"
        )
    ask(store.folder, Request("stop", by=by_this_user()))
    until = time.monotonic() + _SECONDS_TO_STOP
    while is_held(store):
        if time.monotonic() > until:
            who = holder_of(store) or "its process"
            raise SweepFailedError(f"{who} was asked to stop, and still runs")
        time.sleep(_SECONDS_BETWEEN_LOOKS)
    return True
