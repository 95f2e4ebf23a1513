"""A renewed lease ensures that a sweep in a remote storage has only one driver."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from sweeps.errors import UserError
from sweeps.service.interrupts import terminated_as_interrupted
from sweeps.store import lease as module
from sweeps.store.lease import NAME, Holder, lease, read_lease
from tests.builders import Noted, baseline, make_sweep, new_store, trial
from trainables.files.storage import Folder

HOLDER = """
import sys, time
from sweeps.store import lease
from trainables.files.storage import Folder
lease.RENEWED_EVERY = 0.2
with lease.lease(Folder(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folder:
    monkeypatch.setattr(module, "RENEWED_EVERY", 0.2)
    monkeypatch.setattr(module, "LAPSES_AFTER", 4.0)
    return Folder(str(tmp_path))


@pytest.fixture
def holder(folder: Folder) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, folder.uri],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.communicate()


def test_the_lease_of_a_newer_version_names_its_holder(folder: Folder) -> None:
    found = {"holder": "a1", "host": "far", "pid": 7, "renewals": 3, "mood": "good"}
    folder.write(NAME, json.dumps(found).encode())
    assert read_lease(folder) == Holder("far", 7, "a1", 3)


@pytest.mark.slow
def test_one_at_a_time(folder: Folder, holder: subprocess.Popen[str]) -> None:
    messages: list[str] = []
    with (
        pytest.raises(UserError, match=rf"is being run by process {holder.pid} on \S+; wait"),
        lease(folder, Noted(messages)),
    ):
        raise AssertionError("two hold it")
    assert len(messages) == 1
    assert str(holder.pid) in messages[0]
    holder.communicate("")  # it exits normally
    assert folder.names() == []
    with lease(folder, Noted(messages)):
        assert json.loads(folder.read(NAME))["pid"] == os.getpid()
    assert len(messages) == 1
    assert folder.names() == []


@pytest.mark.slow
def test_the_lease_of_a_dead_process_lapses(folder: Folder, holder: subprocess.Popen[str]) -> None:
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    with lease(folder):
        renewed = folder.read(NAME)
        until = time.monotonic() + 30
        while folder.read(NAME) == renewed:  # until it is renewed
            assert time.monotonic() < until
            time.sleep(0.1)
    assert folder.names() == []


def stopped_by(folder: Folder, happens: Callable[[], object]) -> None:
    """Hold the lease while something happens to it, until SIGTERM arrives."""
    with (
        pytest.raises(KeyboardInterrupt),
        terminated_as_interrupted() as interrupt,
        lease(folder, on_lost=interrupt) as held,
    ):
        happens()
        try:
            time.sleep(1000)  # longer than a test may take: the signal must wake it
        finally:
            with pytest.raises(UserError):
                held.check_if_late()


def test_a_process_whose_signals_are_its_own_is_not_ended(folder: Folder) -> None:
    def elsewhere() -> None:
        lost = threading.Event()
        with (
            terminated_as_interrupted() as interrupt,
            lease(folder, on_lost=lambda: (interrupt(), lost.set())) as held,
        ):
            folder.delete(NAME)
            assert lost.wait(30)
            with pytest.raises(UserError, match="is gone: this process did not renew it"):
                held.check_if_late()

    before = signal.signal(signal.SIGTERM, signal.default_int_handler)  # avoids an exit
    try:
        with ThreadPoolExecutor(1) as pool:
            pool.submit(elsewhere).result()
    finally:
        signal.signal(signal.SIGTERM, before)


def test_deleting_a_sweep_does_not_lose_its_lease(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = new_store(tmp_path, make_sweep("large"), [baseline()])
    monkeypatch.setattr(module, "RENEWED_EVERY", 0.1)
    clear, left = Folder.clear, []

    def clears_slowly(folder: Folder, besides: Collection[str] = ()) -> None:
        clear(folder, besides)
        time.sleep(0.5)  # long enough for a renewal
        left.append(folder.names())

    monkeypatch.setattr(Folder, "clear", clears_slowly)
    lost: list[str] = []
    with ExitStack() as stack:
        with monkeypatch.context() as patch:
            patch.setattr(Folder, "is_local", False)
            stack.enter_context(store.locked(on_lost=lambda: lost.append("lost")))
        store.delete()
        time.sleep(0.3)  # long enough for a renewal, which must not happen
    assert left == [[NAME, "format", "sweep_id"]]
    assert lost == []
    assert not Path(store.folder.path).exists()


def test_a_driver_that_was_suspended_too_long_stops(folder: Folder) -> None:
    other = json.dumps({"holder": "other", "host": "far", "pid": 1, "renewals": 7}).encode()
    stopped_by(folder, lambda: folder.write(NAME, other))
    assert folder.read(NAME) == other


def test_a_lease_that_is_gone_is_lost(folder: Folder) -> None:
    stopped_by(folder, lambda: folder.delete(NAME))  # like another driver that has finished
    assert folder.names() == []


def test_a_damaged_lease_is_written_anew(folder: Folder) -> None:
    with lease(folder):
        folder.write(NAME, b"")
        until = time.monotonic() + 30
        while not folder.read(NAME):
            assert time.monotonic() < until
            time.sleep(0.1)
    assert folder.names() == []


def test_a_driver_that_slept_writes_no_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = new_store(tmp_path, make_sweep("asleep"))
    monkeypatch.setattr(module, "RENEWED_EVERY", 60.0)  # the holder sleeps
    with ExitStack() as stack:
        with monkeypatch.context() as patch:
            patch.setattr(Folder, "is_local", False)  # like a storage without locks
            stack.enter_context(store.locked())
        store.save(baseline())
        monkeypatch.setattr(module, "LAPSES_AFTER", 0.0)
        store.save(trial(1))  # late, but no other driver took over
        store.folder.delete(NAME)
        with pytest.raises(UserError, match="is gone: this process did not renew it"):
            store.save(trial(2))
    assert [record.number for record in store.load_records()] == [0, 1]
