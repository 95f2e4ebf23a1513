"""Low memory on a node, and failures of Ray Tune itself."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sweeps.cluster import worker_server
from sweeps.cluster.slots import Slots
from sweeps.cluster.tune_hooks import QueueCallback
from sweeps.errors import SweepFailedError
from sweeps.search.trial_queue import TrialQueue
from sweeps.service.course import EndedSweep
from sweeps.service.running import run_sweep
from sweeps.store.sweep_store import SweepStore
from tests.builders import Noted, make_sweep, new_store, queue_of
from trainables.contract.messages import OutOfMemory, to_tune


def a_queue(folder: Path, **sections: Any) -> tuple[TrialQueue, SweepStore]:
    sweep = make_sweep("unlucky", training={"epochs": 9}, **sections)
    store = new_store(folder, sweep)
    return queue_of(sweep, store), store


def tune_trial(number: int, error_file: Path | None = None) -> Any:
    return SimpleNamespace(
        config={"number": number}, trial_id=str(number), last_result={}, error_file=error_file
    )


def test_the_log_says_why_workers_are_not_forked(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(worker_server, "_PROGRAM", "raise ImportError('no foo')  # {}")
    monkeypatch.setattr(worker_server, "_servers", [])
    monkeypatch.setattr(worker_server, "_faults", [])
    worker_server.worker_server.__wrapped__()
    worker_server._servers[0][0].wait()
    worker_server.log_if_not_forked()
    assert caplog.messages == [
        "workers are not forked, so they start more slowly: ImportError: no foo"
    ]


def test_with_several_trials_none_fails_for_memory(tmp_path: Path) -> None:
    queue, _ = a_queue(tmp_path)
    said: list[str] = []
    callback = QueueCallback(queue, lambda running: f"{running} ran", Noted(said))
    for _ in range(9):
        first, _ = queue.next(), queue.next()
        assert first is not None
        for number in list(queue._live):
            callback.out_of_memory("why")
            callback.on_trial_error(0, [], tune_trial(number))
            if queue.live == 1:  # the other trial ends differently
                queue.interrupted()
    assert said[0] == "trial 0 was killed, as its node runs low on memory; 2 ran"
    assert all(record.state == "running" for record in queue.records)


def test_a_trial_that_is_alone_too_big_fails(tmp_path: Path) -> None:
    queue, _ = a_queue(tmp_path)
    callback = QueueCallback(queue)
    for _ in range(4):
        record = queue.next()
        assert record is not None
        callback.out_of_memory("why")
        callback.on_trial_error(0, [], tune_trial(record.number))
    assert record.state == "failed"


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (
            'The actor died\n  File "/own.py", line 5, in f\n    import foo\nImportError: no foo\n',
            "its process failed repeatedly, the last time by ImportError: no foo, /own.py, line 5",
        ),
        ("The actor is dead", "its process died 4 times in epoch 1, see driver.log"),
    ],
)
def test_a_trial_whose_process_cannot_start_fails_with_the_reason(
    tmp_path: Path, error: str, reason: str
) -> None:
    queue, _ = a_queue(tmp_path)
    (tmp_path / "error.txt").write_text(error)
    callback = QueueCallback(queue)
    for _ in range(4):
        record = queue.next()
        assert record is not None
        callback.on_trial_error(0, [], tune_trial(record.number, tmp_path / "error.txt"))
    assert (record.state, record.reason) == ("failed", reason)


@pytest.mark.parametrize("alone", [False, True])
def test_a_trial_that_ran_out_of_gpu_memory_is_retried_without_a_limit(
    tmp_path: Path, alone: bool
) -> None:
    queue, _ = a_queue(tmp_path)
    said: list[str] = []
    callback = QueueCallback(queue, lambda running: f"{running} ran", Noted(said))
    full = to_tune(OutOfMemory("out of memory: CUDA"))
    other = None if alone else queue.next()
    for attempt in range(4):
        record = queue.next()
        assert record is not None
        assert queue.config(record).unlimited == (attempt > 0)
        trial = SimpleNamespace(config={"number": record.number}, trial_id="a", last_result=full)
        callback.on_trial_complete(0, [], trial)
    assert said[0].endswith(f"ran out of memory on its GPU; {1 if alone else 2} ran")
    assert record.state == ("failed" if alone else "running")
    assert record.reason == ("out of memory: CUDA" if alone else None)
    assert other is None or not queue.config(other).unlimited


def test_fewer_trials_run_after_a_shortage_and_later_as_many_again() -> None:
    now = 0.0
    slots = Slots(lambda: 4, clock=lambda: now)
    assert slots() == 4
    assert (
        slots.out_of_memory(4)
        == "continues in 15 s; for 5 minutes at most 3 trials run concurrently"
    )
    assert "at most 2" in slots.out_of_memory(3)  # killed at the same time
    now = 14
    assert slots() == 0
    now = 16
    assert slots() == 2
    assert slots.out_of_memory(1) == "continues in 30 s; for 10 minutes at most one trial runs"
    now = 500
    assert slots() == 1
    now = 16 + 601
    assert slots() == 4


def run_with_faults(
    folder: Path, patch: pytest.MonkeyPatch, faults: list[bool], concurrent: int
) -> EndedSweep:
    """A small sweep in which Tune fails at some results: True before recording, False after."""
    note = QueueCallback.on_trial_result

    def fail(callback: QueueCallback, *arguments: Any, **named: Any) -> None:
        before = faults.pop(0) if faults else None
        if not before:
            note(callback, *arguments, **named)
        if before is not None:
            raise RuntimeError("of a new kind\nmore")

    patch.setattr(QueueCallback, "on_trial_result", fail)
    sweep = make_sweep(
        "unlucky",
        dataset={"name": "digits", "train_samples": 300},
        model={"name": "small_cnn", "width": 4},
        training={"epochs": 3},
        search={"trials": 2},
        scheduler={"name": "none"},
        selection={"finalists": 0},
        scaling={"max_concurrent": concurrent},
    )
    return run_sweep(sweep, str(folder))


@pytest.mark.slow
def test_a_sweep_that_gets_further_continues_after_any_fault(
    ray_session: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    faults = [False, True]
    result = run_with_faults(tmp_path, monkeypatch, faults, concurrent=2)
    assert {record.state for record in result.records} == {"finished"}
    assert faults == []


@pytest.mark.slow
def test_a_sweep_that_gets_no_further_ends_with_one_message(
    ray_session: None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("sweeps.cluster.tuner._MOST_FAULTS", 1)  # each takes a new process
    with pytest.raises(
        SweepFailedError, match=r"2 times without progress of the sweep .*of a new kind"
    ):
        run_with_faults(tmp_path, monkeypatch, [True] * 99, concurrent=1)
    said = capsys.readouterr().err
    assert "Ray Tune failed (RuntimeError: of a new kind, " in said
    assert "test_tuner.py, line " in said
    assert "and is restarted; 1 trial continues; traceback in " in said
