"""Whether a sweep runs, and how it ended."""

import os
import socket
import subprocess
import threading
import time
from pathlib import Path

import pytest

from sweeps.errors import SweepFailedError, SweepInterruptedError, UserError
from sweeps.service.background import stop_here
from sweeps.store.lease import NAME as LEASE
from sweeps.store.lease import Lease
from sweeps.store.requests import stopped_on_request, take
from sweeps.store.state import failure_noted, holder_of, state_of
from sweeps.store.sweep_store import LOCK, SweepStore
from tests.builders import make_sweep, new_store


@pytest.fixture
def store(tmp_path: Path) -> SweepStore:
    return new_store(tmp_path, make_sweep("birds"))


def test_a_sweep_runs_while_a_process_holds_it_and_then_is_stopped(store: SweepStore) -> None:
    assert state_of(store) == "stopped"
    with store.locked():
        assert state_of(store) == "running"
        holder = holder_of(store)
        assert holder is not None and holder.pid == os.getpid()
    assert state_of(store) == "stopped"
    assert holder_of(store) is None


def test_looking_at_a_sweep_keeps_no_process_from_running_it(store: SweepStore) -> None:
    (Path(store.folder.path) / LOCK).touch()
    state_of(store)
    with store.locked():
        pass


@pytest.mark.parametrize(("age", "expected"), [(0.0, "running"), (300.0, "stopped")])
def test_a_lease_counts_while_it_is_renewed(store: SweepStore, age: float, expected: str) -> None:
    Lease(store.folder, lambda: None).renew()
    written = time.time() - age
    os.utime(Path(store.folder.path) / LEASE, (written, written))
    assert state_of(store) == expected


def test_an_error_makes_it_failed_until_it_runs_again(store: SweepStore) -> None:
    def end_by(error: BaseException) -> None:
        with pytest.raises(type(error)), failure_noted(store):
            raise error

    end_by(SweepFailedError("every trial failed"))
    assert state_of(store) == "failed"
    end_by(SweepInterruptedError("by Ctrl-C"))
    assert state_of(store) == "stopped"
    end_by(KeyboardInterrupt())
    assert state_of(store) == "stopped"
    store.save_answer({})
    assert state_of(store) == "finished"
    end_by(ValueError("it has a result, and failed"))
    assert state_of(store) == "failed"


def test_a_sweep_is_stopped_by_the_process_that_holds_it(store: SweepStore) -> None:
    assert not stop_here("another", store.storage)
    with pytest.raises(
        UserError, match=r"'birds' .* does not run: it is stopped; .* cluster's address"
    ):
        stop_here("birds", store.storage)
    begun, stopped = threading.Event(), threading.Event()

    def drive() -> None:
        own = SweepStore(store.storage, store.name)
        with own.locked(), stopped_on_request(own.folder, stopped.set):
            begun.set()
            stopped.wait(60)

    driver = threading.Thread(target=drive)
    driver.start()
    begun.wait(60)
    # Its number may be that of another process here, if it runs in a container of the same name.
    bystander = subprocess.Popen(["sleep", "60"])
    (Path(store.folder.path) / LOCK).write_text(f"{bystander.pid} on {socket.gethostname()}")
    assert stop_here("birds", store.storage)
    assert stopped.is_set() and bystander.poll() is None
    bystander.kill()
    bystander.wait()
    driver.join()
    assert not take(store.folder, "stop")
