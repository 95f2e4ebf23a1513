"""The background thread that writes to MLflow."""

import re
import socket
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sweeps.errors import SweepFailedError, UserError
from sweeps.messages.reporter import Reporter
from sweeps.search.plan import Plan
from sweeps.search.record import TrialRecord
from sweeps.service.upkeep import sync_sweep
from sweeps.store.sweep_store import SweepStore
from sweeps.tracking.address import check_answers, tracking_uri
from sweeps.tracking.mirror import Mirror
from sweeps.tracking.outbox import Outbox
from sweeps.tracking.reader import tracked_sweeps
from sweeps.tracking.writer import MlflowWriter
from tests.builders import trial
from tests.harness.tracked import (
    client_of,
    ending_of,
    keep_answer,
    make_mirror,
    make_records,
    make_store,
    make_sweep,
    runs_of,
    write_whole,
)


def closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_a_server_that_is_gone_stops_nothing(tmp_path: Path) -> None:
    uri = f"http://127.0.0.1:{closed_port()}"
    sweep, records = make_sweep("unheard", tracking={"uri": uri}), make_records()
    writer = MlflowWriter(Mirror(Plan(sweep), make_store(tmp_path, sweep, records)))
    for record in records:
        writer.submit(record)
        writer.submit(record)
    assert writer.close(0.5, ending_of(records, sweep)) == len(records)
    assert writer.fault is not None
    with pytest.raises(UserError, match=rf"tracking.uri = '{uri}' does not answer"):
        check_answers(uri)
    with pytest.raises(UserError, match="does not answer"):
        tracked_sweeps(uri)


def test_a_failed_trial_that_is_retried_is_not_filed_before_it_ends() -> None:
    outbox, record = Outbox(), trial(1, state="failed")
    for filed in (1, 0):
        outbox.put(record)
        outbox.show(record, lambda _: None)
        assert outbox.lacking == (0, filed, False, False)
        record.again()


def test_a_writer_with_nothing_to_write_makes_no_database(tmp_path: Path) -> None:
    sweep = make_sweep("idle")
    writer = MlflowWriter(Mirror(Plan(sweep), make_store(tmp_path, sweep, [])))
    assert writer.close(patience=60) == 0
    assert tracked_sweeps(tracking_uri(str(tmp_path))) == []
    assert not (tmp_path / "mlflow.db").exists()


def test_a_trial_whose_files_are_damaged_holds_up_no_other(
    storage: Path, written: list[TrialRecord], caplog: pytest.LogCaptureFixture
) -> None:
    sweep, records = make_sweep("damaged"), make_records()[:3]
    store = make_store(storage, sweep, records)
    whole = store.trial_folder(1).read("predictions_test.parquet")
    store.trial_folder(1).write("predictions_test.parquet", b"PAR1 cut sh")
    writer = MlflowWriter(Mirror(Plan(sweep), store))
    for record in records:
        writer.submit(record)
    with caplog.at_level("ERROR", logger="calsweep"):
        assert writer.close(patience=60) == 1
    assert re.search(r"trial 1: its files in .*damaged/trials/00001: .*[Pp]arquet", caplog.text)
    assert writer.outbox.trials == 0
    statuses = {n: run.info.status for n, run in runs_of(storage, "damaged").items()}
    assert statuses == {"": "KILLED", "0": "FINISHED", "1": "KILLED", "2": "FINISHED"}
    with pytest.raises(SweepFailedError, match=r"not in MLflow in full:\ntrial 1: its files in"):
        sync_sweep("damaged", str(storage))
    store.trial_folder(1).write("predictions_test.parquet", whole)
    keep_answer(store, records, sweep)
    assert sync_sweep("damaged", str(storage)).trials == 3
    statuses = {n: run.info.status for n, run in runs_of(storage, "damaged").items()}
    assert set(statuses.values()) == {"FINISHED"}


def test_files_that_the_storage_does_not_give_out_now_come_later(fresh: Path) -> None:
    sweep, records = make_sweep("patient"), make_records()[:3]
    store = make_store(fresh, sweep, records)
    path = Path(store.trial_folder(1).path) / "predictions_test.parquet"
    aside = path.rename(path.with_suffix(".aside"))
    path.mkdir()  # cannot be read, like a storage that answers 503
    writer = MlflowWriter(Mirror(Plan(sweep), store))
    for record in records:
        writer.submit(record)
    until = time.monotonic() + 60
    while writer.fault is None:
        assert time.monotonic() < until
        time.sleep(0.05)
    assert "trial 1: its files in" in writer.fault
    path.rmdir()
    aside.rename(path)
    assert writer.close(60, ending_of(records, sweep)) == 0
    assert writer.fault is None
    statuses = {n: run.info.status for n, run in runs_of(fresh, "patient").items()}
    assert statuses == dict.fromkeys(("", "0", "1", "2"), "FINISHED")


def test_a_deleted_run_stops_no_other(fresh: Path, caplog: pytest.LogCaptureFixture) -> None:
    sweep, records = make_sweep("pruned"), make_records()[:3]
    store = make_store(fresh, sweep, records)
    mirror = Mirror(Plan(sweep), store)
    write_whole(
        mirror, replace(records[1], state="running", ended=None, history=records[1].history[:1])
    )
    mirror.show(replace(records[0], state="running", ended=None, history=[]))
    client, runs = client_of(fresh), runs_of(fresh, "pruned")
    client.delete_run(runs["1"].info.run_id)
    writer = MlflowWriter(mirror)
    for record in (records[1], records[0], records[2]):
        writer.submit(record)
    with caplog.at_level("WARNING", logger="calsweep"):
        assert writer.close(60, ending_of(records, sweep)) == 0
    assert writer.fault is None
    assert "trial 1: its run was deleted in MLflow" in caplog.text
    statuses = {n: run.info.status for n, run in runs_of(fresh, "pruned").items()}
    assert statuses == {"": "FINISHED", "0": "FINISHED", "2": "FINISHED"}
    done = sync_sweep("pruned", str(fresh))
    assert (done.trials, done.deleted) == (3, 1)
    client.restore_run(runs["1"].info.run_id)
    assert sync_sweep("pruned", str(fresh)).deleted == 0
    assert runs_of(fresh, "pruned")["1"].info.status == "FINISHED"


def test_a_run_that_cannot_be_uploaded_stops_no_other(
    fresh: Path, caplog: pytest.LogCaptureFixture
) -> None:
    sweep, records = make_sweep("uploaded"), make_records()[:3]
    mirror = make_mirror(fresh, sweep, records)
    mirror.show(replace(records[0], state="running", ended=None))
    run_id = runs_of(fresh, "uploaded")["0"].info.run_id
    place = fresh / "artifacts" / "digits" / run_id
    place.parent.mkdir(exist_ok=True, parents=True)
    place.write_text("a file where the folder of its artifacts is to be")
    writer = MlflowWriter(mirror)
    for record in records:
        writer.submit(record)
    with caplog.at_level("ERROR", logger="calsweep"):
        assert writer.close(patience=60) == 1
    assert "trial 0: its run is refused by MLflow: " in caplog.text
    assert writer.fault is not None and writer.fault.startswith("trial 0: ")
    statuses = {n: run.info.status for n, run in runs_of(fresh, "uploaded").items()}
    assert statuses == {"": "KILLED", "0": "KILLED", "1": "FINISHED", "2": "FINISHED"}
    with pytest.raises(SweepFailedError, match=r"in full:\ntrial 0: its run is refused"):
        sync_sweep("uploaded", str(fresh))
    place.unlink()
    sync_sweep("uploaded", str(fresh))
    assert runs_of(fresh, "uploaded")["0"].info.status == "FINISHED"


def test_a_deleted_parent_ends_no_sweep_and_comes_back_with_sync(fresh: Path) -> None:
    sweep, records = make_sweep("orphaned"), make_records()[:3]
    mirror = make_mirror(fresh, sweep, records)
    write_whole(mirror, records[0])
    client, parent = client_of(fresh), runs_of(fresh, "orphaned")[""].info.run_id
    client.delete_run(parent)
    writer = MlflowWriter(mirror)
    for record in records[1:]:
        writer.submit(record)
    assert writer.close(60, ending_of(records, sweep)) == 0
    assert writer.fault == "the sweep's own run was deleted in MLflow"
    keep_answer(SweepStore(str(fresh), "orphaned"), records, sweep)
    assert sync_sweep("orphaned", str(fresh)).trials == 3
    runs = runs_of(fresh, "orphaned")
    assert runs[""].info.run_id == parent
    assert {run.info.status for run in runs.values()} == {"FINISHED"}
    (tracked,) = tracked_sweeps(tracking_uri(str(fresh)))
    assert tracked.parent_id == parent


def test_an_experiment_deleted_while_a_sweep_runs_is_written_anew_by_sync(fresh: Path) -> None:
    sweep, records = make_sweep("swept"), make_records()[:3]
    mirror = make_mirror(fresh, sweep, records)
    write_whole(mirror, records[0])
    (experiment,) = client_of(fresh).search_experiments(filter_string="tags.calsweep = '1'")
    client_of(fresh).delete_experiment(experiment.experiment_id)
    writer = MlflowWriter(mirror)
    writer.submit(records[1])
    assert writer.close(patience=60) == 1
    assert writer.fault == (
        "trial 1: its run is lost: the experiment 'digits' was deleted in MLflow"
    )
    assert sync_sweep("swept", str(fresh)).deleted == 0
    assert runs_of(fresh, "swept").keys() == {"", "0", "1", "2"}


def test_what_is_shown_comes_first_and_files_last(
    fresh: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order = []
    for step in ("show", "complete", "answer", "end"):
        whole = getattr(Mirror, step)

        def noted(mirror: Mirror, *what: Any, step: str = step, whole: Any = whole) -> None:
            order.append(step)
            whole(mirror, *what)

        monkeypatch.setattr(Mirror, step, noted)
    sweep, records = make_sweep("ordered"), make_records()[:3]
    writer = MlflowWriter(make_mirror(fresh, sweep, records))
    for record in records:
        writer.outbox.put(record)  # all together, as after a resume
    assert writer.close(60, ending_of(records, sweep)) == 0
    assert order == [*["show"] * 3, "answer", *["complete"] * 3, "end"]
    assert {run.info.status for run in runs_of(fresh, "ordered").values()} == {"FINISHED"}


def test_an_unfinished_sweep_is_killed_and_tells_of_every_trial(fresh: Path) -> None:
    sweep, records = make_sweep("unfinished"), make_records()[:3]
    store = make_store(fresh, sweep, records)
    for some in (records[:2], records):  # like an interrupted run, and its resume
        writer = MlflowWriter(Mirror(Plan(sweep), store))
        for record in some:
            writer.submit(record)
        assert writer.close(60) == 0
        parent = runs_of(fresh, "unfinished")[""]
        assert parent.info.status == "KILLED"
        assert f"{len(some)} trials ended so far" in parent.data.tags["mlflow.note.content"]
    assert sync_sweep("unfinished", str(fresh)).trials == 3
    parent = runs_of(fresh, "unfinished")[""]
    assert parent.info.status == "KILLED"
    assert "3 trials ended so far" in parent.data.tags["mlflow.note.content"]
    assert "best_loss" not in parent.data.tags


def test_runs_of_an_interrupted_sweep_are_killed_and_reopened(fresh: Path) -> None:
    sweep, records = make_sweep("again"), make_records()[:2]
    running = replace(records[1], state="running", ended=None, history=records[1].history[:1])
    store = make_store(fresh, sweep, records)

    def statuses() -> dict[str, str]:
        return {number: run.info.status for number, run in runs_of(fresh, "again").items()}

    writer = MlflowWriter(Mirror(Plan(sweep), store))
    for record in (records[0], running):
        writer.submit(record)
    assert writer.close(60) == 0
    assert statuses() == {"": "KILLED", "0": "FINISHED", "1": "KILLED"}
    mirror = Mirror(Plan(sweep), store)
    mirror.show(running)
    assert statuses() == {"": "RUNNING", "0": "FINISHED", "1": "RUNNING"}
    write_whole(mirror, records[1])
    mirror.suspend()
    assert statuses() == {"": "KILLED", "0": "FINISHED", "1": "FINISHED"}


class Interrupting(Reporter):
    """A user who presses Ctrl-C while MLflow is still being written."""

    def left(self, text: str) -> None:
        raise KeyboardInterrupt


def test_after_an_interrupt_of_the_last_writes_no_run_is_left_as_running(
    fresh: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sweeps.tracking.writer._SECONDS_TO_STOP", 200.0)
    sweep, records = make_sweep("impatient"), make_records()
    store = make_store(fresh, sweep, records)
    keep_answer(store, records, sweep)
    writer = MlflowWriter(Mirror(Plan(sweep), store), Interrupting())
    for record in records:
        writer.submit(record)
    with pytest.raises(KeyboardInterrupt):
        writer.close(60, ending_of(records, sweep))
    statuses = {number: run.info.status for number, run in runs_of(fresh, "impatient").items()}
    assert statuses[""] == "FINISHED"
    assert "RUNNING" not in statuses.values()
    assert sync_sweep("impatient", str(fresh)).trials == len(records)
    complete = runs_of(fresh, "impatient")
    assert complete.keys() == {"", *(str(record.number) for record in records)}
    assert {run.info.status for run in complete.values()} <= {"FINISHED", "FAILED"}


def test_a_resume_sets_the_sweeps_own_run_running_and_sync_keeps_how_it_ended(
    fresh: Path,
) -> None:
    sweep = make_sweep("failed")
    records = [replace(make_records()[5], number=number) for number in range(2)]
    store = make_store(fresh, sweep, records)
    mirror = Mirror(Plan(sweep), store)
    mirror.end(ending_of(records, sweep))  # like an earlier version, without a result
    assert runs_of(fresh, "failed")[""].info.status == "FAILED"
    Mirror(Plan(sweep), store).connect()
    assert runs_of(fresh, "failed")[""].info.status == "RUNNING"
    keep_answer(store, records, sweep)
    sync_sweep("failed", str(fresh))
    assert runs_of(fresh, "failed")[""].info.status == "FAILED"
    Mirror(Plan(sweep), store).connect()
    assert runs_of(fresh, "failed")[""].info.status == "FAILED"
