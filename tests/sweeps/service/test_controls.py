"""Single trials are dropped and retried, and a broken sweep ends early."""

import threading
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from sweeps.cli import app
from sweeps.errors import SweepFailedError, UserError
from sweeps.search.record import TrialRecord
from sweeps.search.trial_queue import TrialQueue, overtime
from sweeps.service.controls import Changed, drop_trials, retry_trials
from sweeps.service.running import resume_sweep, run_sweep
from sweeps.store.blocks import SIZE, BlockWriter
from sweeps.store.journal import read_journal
from sweeps.store.requests import Inbox, Request, fulfil
from sweeps.store.sweep_store import ANNOUNCED, SweepStore
from tests.builders import make_sweep, new_store, queue_of, trial
from tests.harness.tracked import runs_of

SWEEP = make_sweep(
    losses=["focal"],
    training={"epochs": 2},
    search={"trials": 6, "sampler": "random", "max_failures": 3},
    scheduler={"name": "none"},
    selection={"finalists": 1, "seeds": 1},
)


def entry(epoch: int) -> dict[str, float]:
    return {"epoch": epoch, "timestamp": 1e9, "val_error": 0.1, "val_nll": 0.3, "val_ece": 0.1}


@pytest.fixture
def store(tmp_path: Path) -> SweepStore:
    return new_store(tmp_path, SWEEP)


def begin(queue: TrialQueue) -> TrialRecord:
    record = queue.next()
    assert record is not None
    return record


def finish(queue: TrialQueue) -> TrialRecord:
    record = begin(queue)
    for epoch in (1, 2):
        queue.result(record.number, entry(epoch))
    queue.end(record.number, "finished")
    return record


def first_finalist(queue: TrialQueue) -> TrialRecord:
    """The running trial with which the finalists begin."""
    while (record := begin(queue)).role != "finalist":
        for epoch in (1, 2):
            queue.result(record.number, {**entry(epoch), "val_ece": 0.1 - record.number / 100})
        queue.end(record.number, "finished")
    return record


def states(store: SweepStore) -> list[str]:
    return [record.state for record in store.load_records()]


def test_a_dropped_trial_is_never_started_again_but_by_retry(store: SweepStore) -> None:
    queue = queue_of(SWEEP, store)
    finish(queue)
    running, done = begin(queue), finish(queue)
    for number in (running.number, done.number):
        assert queue.drop(number, "ada@here")
    assert not queue.drop(0, "ada@here")  # the baseline
    assert (queue.live, states(store)) == (0, ["finished", "failed", "failed"])
    assert {r.reason for r in store.load_records()} == {None, "dropped by ada@here"}
    assert not queue.gave_up
    again = queue_of(SWEEP, store)
    assert begin(again).number == 3
    assert again.retry(running.number) and not again.retry(0)
    record = begin(again)
    assert (record.number, record.state, record.dropped) == (running.number, "running", False)


def test_a_finalist_that_was_dropped_is_not_run_once_more(store: SweepStore) -> None:
    queue = queue_of(SWEEP, store)
    record = first_finalist(queue)
    queue.drop(record.number, "ada@here")
    rest = []
    while not queue.exhausted:
        rest.append(finish(queue))
    assert (record.setting, record.seed) not in [(r.setting, r.seed) for r in rest]


def test_a_finalist_that_was_run_again_is_not_retried(store: SweepStore) -> None:
    queue = queue_of(SWEEP, store)
    record = first_finalist(queue)
    queue.end(record.number, "failed", "a bug")
    while not queue.exhausted:
        again = finish(queue)
    assert (again.setting, again.seed) == (record.setting, record.seed)
    assert not queue.retry(record.number)
    with pytest.raises(UserError, match=f"trial {record.number} was run again; allowed"):
        retry_trials("small", store.storage, [record.number])
    with pytest.raises(UserError, match="no trial of sweep 'small' has failed"):
        retry_trials("small", store.storage, None)


def test_a_retried_trial_counts_once_and_gets_new_code_and_processes(store: SweepStore) -> None:
    queue = queue_of(SWEEP, store)
    queue.code, queue.code_now = "a", lambda: "b"
    finish(queue)
    record = begin(queue)
    queue.result(record.number, entry(1))
    queue.end(record.number, "failed", "a bug")
    before = queue.budget._epochs_of_ended
    assert queue.retry(record.number)
    assert queue.budget._epochs_of_ended == before - 1
    assert begin(queue) is record
    assert (record.code, queue.config(record).generation) == (["a", "b"], 1)
    queue.result(record.number, entry(2))
    queue.end(record.number, "finished")
    assert (queue.how_it_ended, queue.budget._epochs_of_ended) == ("finished", before + 1)


def test_a_retried_trial_has_all_its_minutes_again() -> None:
    record = trial(1, state="failed")
    record.runs = [[0.0, 200.0], [300.0, 410.0]]
    search = make_sweep(search={"max_minutes_per_trial": 5}).search
    assert "in 5.2 minutes" in (overtime(record, 1.0, search) or "")  # also after a resume
    record.again()
    record.run(500.0)
    assert overtime(record, 299.0, search) is None
    record.pause(799.0)
    assert overtime(record, 2.0, search) is not None


def test_failures_in_a_row_end_the_sweep(store: SweepStore) -> None:
    queue = queue_of(SWEEP, store)
    finish(queue)
    for _ in range(2):
        queue.end(begin(queue).number, "failed", "no space")
    finish(queue)
    for number in range(3):
        assert not queue.exhausted, number
        queue.end(begin(queue).number, "failed", "no space")
    assert queue.exhausted and not queue.complete and queue.next() is None
    assert queue.how_it_ended == "failed"
    assert not queue_of(SWEEP, store).exhausted  # a resume tries again


def test_what_is_asked_of_a_running_sweep_is_done_by_its_process(store: SweepStore) -> None:
    queue = queue_of(SWEEP, store)
    finish(queue)
    running = begin(queue)
    asked: list[Changed] = []

    def ask() -> None:
        asked.append(drop_trials("small", store.storage, [running.number]))

    with store.locked():
        thread = threading.Thread(target=ask)
        thread.start()
        inbox, requests = Inbox(store.folder), []
        while not requests:
            requests = inbox()
        thread.join()
    assert asked == [Changed((running.number,), running=True)]
    (request,) = requests
    assert isinstance(request, Request) and "@" in request.by
    assert fulfil(request, running.number, queue, store._reporter)
    assert not fulfil(request, running.number, queue, store._reporter)
    assert states(store) == ["finished", "failed"]


def test_trials_of_a_stopped_sweep_are_changed_in_its_store(tmp_path: Path) -> None:
    records = [trial(n, ended=1e9 + n) for n in range(SIZE + 1)]
    store = new_store(tmp_path, SWEEP, records)
    BlockWriter(store.folder, records)
    store.save_answer({"why": []})
    store.folder.write(ANNOUNCED, b"{}")
    storage = str(tmp_path)
    assert drop_trials("small", storage, [3, 3]) == Changed((3,), running=False)
    assert store.load_answer() is None  # it may be another one
    assert not store.folder.exists(ANNOUNCED)  # and is announced anew
    kept = store.load_records()[3]
    assert (kept.state, kept.dropped, kept.history) == ("failed", True, records[3].history)
    with pytest.raises(UserError, match="no trial of sweep 'small' has failed"):
        retry_trials("small", storage, None)  # a dropped one has to be named
    retry_trials("small", storage, [3])
    assert store.load_records()[3].state == "running"
    acts = [(entry.act, entry.trials) for entry in read_journal(store.folder)]
    assert acts == [("dropped", (3,)), ("retried", (3,))]


def test_an_interrupted_trial_that_is_dropped_has_ended(store: SweepStore) -> None:
    queue = queue_of(SWEEP, store)
    finish(queue)
    running = begin(queue)  # and its process is killed
    drop_trials("small", store.storage, [running.number])
    again = queue_of(SWEEP, store)
    (run,) = again.record(running.number).runs
    assert len(run) == 2
    assert begin(again).number == running.number + 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["drop", "small", "0"], "trial 0 is the baseline; allowed: trials that have not failed"),
        (["drop", "small", "9"], "sweep 'small' has no trial 9; there are 0 to 1"),
        (["retry", "small", "1"], "trial 1 is finished; allowed: trials that have failed"),
        (["retry", "small"], "give the numbers of trials, or --failed for all failed ones"),
        (["retry", "smal", "1"], "no sweep named 'smal'"),
    ],
)
def test_what_cannot_be_changed_is_explained(
    tmp_path: Path, words: list[str], message: str
) -> None:
    store = new_store(tmp_path, SWEEP)
    queue = queue_of(SWEEP, store)
    finish(queue), finish(queue)
    found = CliRunner().invoke(app, [*words, "--storage", str(tmp_path)])
    assert isinstance(found.exception, UserError) and message in str(found.exception)


BROKEN = """
import time
from pathlib import Path
from torch.nn.functional import cross_entropy
from trainables.losses import CalibrationLoss

class Own(CalibrationLoss):
    def __init__(self, num_classes, alpha=1.0):
        super().__init__(num_classes)
    def compute(self, logits, targets, indices, features):
        if Path("broken").exists():
            raise OSError("the disk of this node is gone")
        return cross_entropy(logits, targets)
"""


@pytest.mark.slow
def test_a_broken_sweep_is_retried_after_a_fix(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "broken_loss.py").write_text(BROKEN)
    (tmp_path / "broken").touch()
    sweep = make_sweep(
        losses=[{"name": "broken_loss:Own", "space": {"alpha": {"low": 1, "high": 2}}}],
        training={"epochs": 1},
        search={"trials": 5, "sampler": "random", "max_failures": 3},
        selection={"finalists": 0},
        reference="none",
    )
    storage, quiet = str(tmp_path / "store"), Console(quiet=True)
    with pytest.raises(SweepFailedError) as failed:
        run_sweep(sweep, storage, debug=True, console=quiet)
    message = str(failed.value)
    assert message.startswith("the last 3 trials failed, so the sweep has ended early (search.max")
    assert "  3 × OSError: the disk of this node is gone\n" in message
    assert "calsweep retry small --failed" in message
    (tmp_path / "broken").unlink()
    assert retry_trials("small", storage, None) == Changed((1, 2, 3), running=False)
    ended = resume_sweep("small", storage, debug=True, console=quiet)
    assert [record.state for record in ended.records] == ["finished"] * 5
    runs = runs_of(Path(storage), "small")
    assert {run.info.status for run in runs.values()} == {"FINISHED"}
    assert {run.data.tags["state"] for number, run in runs.items() if number} == {"finished"}
    drop_trials("small", storage, [4])
    again = resume_sweep("small", storage, debug=True, console=quiet)
    assert [record.state for record in again.records][:5] == ["finished"] * 4 + ["failed"]
    run = runs_of(Path(storage), "small")["4"]
    assert (run.info.status, run.data.tags["state"]) == ("FAILED", "failed")


@pytest.mark.slow
def test_minutes_of_a_trial_are_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sweep = make_sweep(
        losses=["focal"],
        training={"epochs": 500},
        search={"trials": 1, "max_minutes_per_trial": 0.001},
        selection={"finalists": 0},
        reference="none",
    )
    with pytest.raises(SweepFailedError, match=r"longer than search.max_minutes_per_trial = 0.001"):
        run_sweep(sweep, str(tmp_path), debug=True, console=Console(quiet=True))
