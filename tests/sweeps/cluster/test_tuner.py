"""What comes out of Ray Tune when a node runs low on memory, or Tune itself fails."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ray.air.execution._internal.actor_manager import RayActorManager
from ray.exceptions import OutOfMemoryError, RayActorError

from sweeps.cluster import tuner
from sweeps.cluster.callback import LedgerCallback
from sweeps.cluster.internals import SweepOverError, killed_for_memory
from sweeps.cluster.slots import Slots
from sweeps.errors import SweepFailedError
from sweeps.search.ledger import Ledger
from sweeps.store.sweep_store import SweepStore
from tests.builders import ledger_of, make_sweep, new_store
from trainables.report import Progressed, to_tune

OUT_OF_MEMORY = OutOfMemoryError("1 worker(s) were killed due to the node running low on memory.")


@pytest.mark.parametrize("call", ["_actor_task_failed", "_actor_start_failed"])
def test_a_trial_killed_for_memory_is_a_dead_one(call: str) -> None:
    told: list[Any] = []
    manager = RayActorManager(resource_manager=SimpleNamespace())
    actor = SimpleNamespace(actor_id=1, _on_error=lambda _, error: told.append(error))
    task = SimpleNamespace(_tracked_actor=actor, _on_error=None)
    arguments = (
        {"tracked_actor_task": task} if call == "_actor_task_failed" else {"tracked_actor": actor}
    )
    manager._cleanup_actor = lambda tracked_actor: None
    with killed_for_memory(told.append):
        getattr(manager, call)(exception=OUT_OF_MEMORY, **arguments)
    assert told[0] == str(OUT_OF_MEMORY)
    assert isinstance(told[1], RayActorError)
    with killed_for_memory(told.append):  # as Ray tells of actors
        getattr(manager, call)(exception=RayActorError(error_msg=f"{OUT_OF_MEMORY}"), **arguments)
    assert told[2] == told[0]


def a_ledger(folder: Path, **sections: Any) -> tuple[Ledger, SweepStore]:
    sweep = make_sweep("unlucky", training={"epochs": 9}, **sections)
    store = new_store(folder, sweep)
    return ledger_of(sweep, store), store


def tune_trial(number: int) -> Any:
    return SimpleNamespace(config={"number": number}, last_result={})


def test_of_several_trials_none_is_at_fault_for_the_memory(tmp_path: Path) -> None:
    ledger, _ = a_ledger(tmp_path)
    said: list[str] = []
    callback = LedgerCallback(ledger, lambda running: f"{running} ran", said.append)
    for _ in range(9):
        first, _ = ledger.next(), ledger.next()
        assert first is not None
        for number in list(ledger._live):
            callback.out_of_memory("why")
            callback.on_trial_error(0, [], tune_trial(number))
            if ledger.live == 1:  # the other one ends in another way
                ledger.interrupted()
    assert said[0] == "trial 0 was killed, as its node runs low on memory; 2 ran"
    assert all(record.state == "running" for record in ledger.records)


def test_a_trial_that_is_alone_too_big_fails(tmp_path: Path) -> None:
    ledger, _ = a_ledger(tmp_path)
    callback = LedgerCallback(ledger)
    for _ in range(4):
        record = ledger.next()
        assert record is not None
        callback.out_of_memory("why")
        callback.on_trial_error(0, [], tune_trial(record.number))
    assert record.state == "failed"


SHORTAGE = """\
2 worker(s) were killed due to the node running low on memory.
OOM kill reason: Memory usage 8782880768B exceeded threshold of 8765894656B (34.7% of 25276514304B)
Selected to kill: (Task: task name=TrainController.__init__, pid=972, actual memory used=0.40GB, …)
Selected to kill: (Actor(7608): task name=ImplicitFunc, pid=824, actual memory used={taken}GB, …)
"""  # as Ray 2.60 has it, in part


@pytest.mark.parametrize(("taken", "state"), [("3.75", "failed"), ("0.41", "running")])
def test_what_other_programs_take_is_no_trials_fault(
    tmp_path: Path, taken: str, state: str
) -> None:
    said = 2 * SHORTAGE.format(taken=taken)  # an error that passes on another one says it twice
    ledger, _ = a_ledger(tmp_path)
    callback = LedgerCallback(ledger)
    for _ in range(4):
        record = ledger.next()
        assert record is not None
        callback.out_of_memory(said)
        callback.on_trial_error(0, [], tune_trial(record.number))
    assert record.state == state


def test_fewer_trials_run_after_a_shortage_and_later_as_many_again() -> None:
    now = 0.0
    slots = Slots(lambda: 4, clock=lambda: now)
    assert slots() == 4
    assert (
        slots.out_of_memory(4) == "goes on in 15 s; for 5 minutes at most 3 trials run side by side"
    )
    assert "at most 2" in slots.out_of_memory(3)  # killed at the same moment
    now = 14
    assert slots() == 0
    now = 16
    assert slots() == 2
    assert slots.out_of_memory(1) == "goes on in 30 s; for 10 minutes at most one trial runs"
    now = 500
    assert slots() == 1
    now = 16 + 601
    assert slots() == 4


class Failing:
    """In place of Ray Tune: fails, after some epochs of all that run."""

    def __init__(self, ledger: Ledger, callback: LedgerCallback, epochs: list[int]) -> None:
        self.ledger, self.callback, self.epochs = ledger, callback, epochs

    def fit(self) -> None:
        if not self.epochs:
            while record := self.ledger.next():
                for epoch in range(record.epochs + 1, 10):
                    self.report(record.number, epoch)
                self.ledger.end(record.number, "finished")
            raise SweepOverError
        record = self.ledger.next()
        assert record is not None
        for _ in range(self.epochs.pop(0)):
            self.report(record.number, record.epochs + 1)
        raise RuntimeError("Caught unexpected exception: of a new kind\nmore")

    def report(self, number: int, epoch: int) -> None:
        entry = {"epoch": epoch, "val_ece": 0.1, "val_nll": 1.0, "val_error": 0.1}
        report = to_tune(Progressed((entry,), done=False))
        self.callback.on_trial_result(0, [], tune_trial(number), report)


@pytest.fixture
def room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuner, "concurrent_trials", lambda _: 1)


def run(
    ledger: Ledger, store: SweepStore, epochs: list[int], patch: pytest.MonkeyPatch
) -> list[str]:
    said: list[str] = []

    def make(ledger: Ledger, *others: Any) -> Failing:
        return Failing(ledger, others[-1], epochs)

    patch.setattr(tuner, "_tuner", make)
    patch.setattr(tuner.gc, "collect", lambda: 0)  # no actors, but all of pytest
    tuner.tune(ledger, store, SimpleNamespace(), None, said.append)  # type: ignore[arg-type]
    return said


def test_a_sweep_that_gets_further_goes_on_after_any_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: None
) -> None:
    ledger, store = a_ledger(tmp_path, search={"trials": 3}, selection={"finalists": 0})
    said = run(ledger, store, [1, 0, 1, 0, 0, 2, 0, 1], monkeypatch)
    assert [record.state for record in ledger.records] == ["finished"] * 3
    assert len(said) == 8
    assert said[0] == (
        "Ray Tune failed (RuntimeError: Caught unexpected exception: of a new kind); it is started "
        "again"
    )


def test_a_sweep_that_gets_no_further_ends_with_one_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: None
) -> None:
    ledger, store = a_ledger(tmp_path)
    with pytest.raises(SweepFailedError, match="4 times in which the sweep got no further"):
        run(ledger, store, [0] * 99, monkeypatch)
    assert ledger.records[0].state == "running"
