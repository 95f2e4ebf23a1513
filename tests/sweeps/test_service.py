"""Whole sweeps with a real MLflow, trained in this process; Ray has its own tests."""

import io
import json
import math
import shutil
import sqlite3
import threading
import uuid
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from sweeps.errors import SweepFailedError, SweepInterruptedError, UserError
from sweeps.messages.formatting import finite
from sweeps.planning.data import load_data
from sweeps.planning.data_fit import fit_to_data
from sweeps.results.best import best_settings
from sweeps.results.result import SweepResult
from sweeps.search.ranking import Ranking
from sweeps.search.rules import rule_of
from sweeps.service.course import EndedSweep
from sweeps.service.reading.writing import write_report
from sweeps.service.running import resume_sweep
from sweeps.service.upkeep import sync_sweep
from sweeps.store.sweep_store import SweepStore
from sweeps.sweep_file.loading import parse_sweep
from sweeps.terminal.console import plain_console
from sweeps.terminal.progress import Progress
from sweeps.tracking.address import tracking_uri
from sweeps.tracking.reader import tracked_sweeps
from tests.harness.interrupting import interrupted
from tests.harness.small_sweeps import run, sweep_of
from tests.harness.tracked import runs_of
from tests.harness.workplace import workplace_of

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder in which the sweeps run."""
    with workplace_of(tmp_path_factory.mktemp("workplace")) as folder:
        yield folder


@pytest.fixture(scope="module")
def first(workplace: Path) -> EndedSweep:
    return run(workplace, "first")


def test_the_baseline_and_the_published_settings_come_first(first: EndedSweep) -> None:
    roles = [record.role for record in first.records]
    assert roles[0] == "baseline"
    assert roles[1:6] == ["published"] * 5
    assert roles[6] == "search"
    assert set(roles[7:]) == {"finalist"}
    assert first.records[0].loss == "cross_entropy"
    published = [(r.loss, r.hyperparameters) for r in first.records[1:6]]
    assert ("label_smoothing", {"alpha": 0.05}) in published
    assert ("focal", {"gamma": 3.0}) in published


def test_every_trial_ends_with_all_metrics(first: EndedSweep) -> None:
    for record in first.records:
        assert record.state in ("finished", "stopped")
        assert 0 <= record.outcome["val_ece"] <= 1
        assert 0 <= record.outcome["test_ece_scaled"] <= 1
        assert record.outcome["temperature"] > 0
    assert first.records[0].epochs == 3


def test_finalists_have_fresh_seeds(first: EndedSweep) -> None:
    seeds = {record.seed for record in first.records if record.role == "finalist"}
    assert seeds == {1}


def test_mlflow_has_one_run_per_trial_with_all_artifacts(
    workplace: Path, first: EndedSweep
) -> None:
    from mlflow import MlflowClient

    assert first.unsynced == 0
    uri = tracking_uri(str(workplace / "store"))
    (sweep,) = [s for s in tracked_sweeps(uri) if s.name == "first"]
    assert sorted(sweep.run_ids) == [record.number for record in first.records]
    client = MlflowClient(uri)
    run_id = sweep.run_ids[0]
    names = {artifact.path for artifact in client.list_artifacts(run_id)}
    assert names == {
        "checkpoint.pt",
        "environment.json",
        "metrics.json",
        "predictions_test.parquet",
        "predictions_validation.parquet",
        "reliability.svg",
        "sweep.yaml",
    }
    history = client.get_metric_history(run_id, "val_nll")
    assert [metric.step for metric in history] == [1, 2, 3]


def test_best_from_mlflow_is_what_the_records_say(workplace: Path, first: EndedSweep) -> None:
    (sweep,) = [
        s for s in tracked_sweeps(tracking_uri(str(workplace / "store"))) if s.name == "first"
    ]
    (entry,) = best_settings([sweep])
    chosen = Ranking(first.records, rule_of(parse_sweep(sweep_of("first")))).chosen
    assert chosen is not None
    assert entry.loss == chosen.loss
    assert entry.hyperparameters == chosen.trials[0].hyperparameters
    assert entry.val["ece"] == pytest.approx(chosen.mean("val_ece"), abs=1e-12)
    assert {"error", "ece", "nll"} <= entry.test.keys()


def test_a_finished_sweep_resumes_to_the_same(workplace: Path, first: EndedSweep) -> None:
    again = resume_sweep("first", str(workplace / "store"), debug=True, console=Console(quiet=True))
    assert again.records == first.records
    assert json.dumps(again.result.why) == json.dumps(first.result.why)


@pytest.fixture
def unmirrored(workplace: Path, first: EndedSweep, tmp_path: Path) -> SweepStore:
    """The first sweep, finished, but not in MLflow."""
    shutil.copytree(workplace / "store/sweeps", tmp_path / "sweeps")
    shutil.copyfile(workplace / "store/mlflow.db", tmp_path / "mlflow.db")
    store = SweepStore(str(tmp_path), "first")
    records = store.load_records()
    store.folder.write("sweep_id", uuid.uuid4().hex.encode())
    store = SweepStore(str(tmp_path), "first")
    for record in records:  # with the new id, so that they belong to the copy
        store.save(record)
    return store


@pytest.fixture
def locked(unmirrored: SweepStore) -> Iterator[sqlite3.Connection]:
    """A transaction that blocks MLflow's writes until it is rolled back."""
    with closing(sqlite3.connect(Path(unmirrored.storage) / "mlflow.db")) as connection:
        connection.execute("BEGIN EXCLUSIVE")
        yield connection


def statuses(store: SweepStore) -> set[str]:
    """Statuses of the runs in MLflow; checks that each trial has one."""
    runs = runs_of(Path(store.storage), "first")
    assert len(runs) == len(store.load_records()) + 1
    return {run.info.status for run in runs.values()}


def test_the_result_is_printed_before_mlflow_is_complete(
    unmirrored: SweepStore, locked: sqlite3.Connection, first: EndedSweep
) -> None:
    answers = []

    def on_answer(answer: SweepResult) -> None:
        answers.append(answer)
        locked.rollback()

    said = io.StringIO()
    console = plain_console(file=said)
    again = resume_sweep(
        "first", unmirrored.storage, debug=True, console=console, on_answer=on_answer
    )
    found = [finite(each.to_json()) for each in answers]
    assert json.dumps(found) == json.dumps([finite(first.result.to_json())])
    assert (again.unsynced, again.fault) == (0, None)
    assert f"Writing to MLflow, {len(first.records)} trials left ..." in said.getvalue()
    assert statuses(unmirrored) == {"FINISHED"}


def test_missing_mlflow_runs_are_written_later(
    unmirrored: SweepStore, locked: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(progress: Progress, text: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Progress, "left", interrupt)
    with pytest.raises(SweepInterruptedError, match=r"`calsweep sync first --storage \S+` brings"):
        resume_sweep("first", unmirrored.storage, debug=True, console=Console(quiet=True))
    assert unmirrored.load_answer() is not None
    locked.rollback()
    for thread in threading.enumerate():
        if thread.name == "mlflow-writer":
            thread.join()  # it has stopped writing
    sync_sweep("first", unmirrored.storage)
    assert statuses(unmirrored) == {"FINISHED"}


def test_a_taken_name_is_refused(workplace: Path, first: EndedSweep) -> None:
    with pytest.raises(UserError, match="a sweep of this name exists"):
        run(workplace, "first")


OWN_METRIC = """
def cost(probs, labels):
    return float((probs.argmax(dim=1) - labels).abs().double().mean())
"""


def test_a_custom_metric_is_the_objective(workplace: Path) -> None:
    (workplace / "own_metric.py").write_text(OWN_METRIC)
    objectives = ["own_metric:cost_scaled", "val_error"]
    result = run(
        workplace,
        "own_metric",
        losses=["brier"],
        search={"trials": 2, "constraints": {"val_cost": 9}, "objective": objectives},
        selection={"finalists": 1, "seeds": 1},
    )
    finished = [r.outcome for r in result.records if r.state == "finished"]
    chosen, front = result.result.selected, result.result.front
    assert chosen is not None and front
    assert result.result.objective == "val_cost_scaled"
    assert all(o["val_cost"] <= o["val_cost_high"] and "test_cost_scaled" in o for o in finished)
    assert front[0].objectives["val_cost_scaled"] <= front[-1].objectives["val_cost_scaled"]
    (sweep,) = [
        s for s in tracked_sweeps(tracking_uri(str(workplace / "store"))) if s.name == "own_metric"
    ]
    (entry,) = best_settings([sweep])
    assert entry.front == front
    assert chosen.val["cost"] in [o["val_cost"] for o in finished]
    assert {"val_cost_scaled", "test_cost"} <= result.result.rows[0].metrics.keys()
    write_report("own_metric", str(workplace / "store"), str(workplace / "own_metric.html"))
    assert "cost" in (workplace / "own_metric.html").read_text()


TWO_STAGES: dict[str, Any] = {
    "encoder": {"training": {"epochs": 6, "batch_size": 64, "lr": 0.05}},
    "training": {"epochs": 6, "batch_size": 64, "lr": 3.0},
    "losses": ["label_smoothing"],
    "search": {"trials": 3, "sampler": "tpe"},
}


@pytest.fixture(scope="module")
def two_stages(workplace: Path) -> EndedSweep:
    return run(workplace, "two_stages", **TWO_STAGES)


def test_a_sweep_of_two_stages_trains_its_encoders_once(
    workplace: Path, two_stages: EndedSweep
) -> None:
    roles = [record.role for record in two_stages.records]
    assert roles[:3] == ["encoder", "encoder", "baseline"]
    assert [r.epochs for r in two_stages.records[:2]] == [6, 6]
    selected = two_stages.result.selected
    assert selected is not None and selected.val["error"] < 0.3
    assert "supcon" not in {row.loss for row in two_stages.result.rows}
    (sweep,) = [
        s for s in tracked_sweeps(tracking_uri(str(workplace / "store"))) if s.name == "two_stages"
    ]
    assert sweep.model == "small_cnn+supcon"
    assert [r.role for r in sweep.records] == roles
    write_report("two_stages", str(workplace / "store"), str(workplace / "two_stages.html"))
    other_heads = {**TWO_STAGES, "losses": ["ecp"]}
    second = run(workplace, "other_heads", **other_heads)
    assert "encoder" not in {record.role for record in second.records}


def test_all_trials_train_for_the_epochs_that_the_baseline_needs(workplace: Path) -> None:
    """The pilot finds them, and is interrupted once; the schedule spans them."""
    recipe = {"epochs": 60, "patience": 2, "lr": 0.2, "batch_size": 32}
    options = {"training": recipe, "search": {"trials": 2, "sampler": "tpe"}}
    folder = workplace / "store/sweeps/patient"
    caught = interrupted(lambda: run(workplace, "patient", **options), folder, "pilot/*")
    assert "calsweep resume patient" in str(caught.value)
    assert not list(folder.glob("trials/*"))
    resume = partial(
        resume_sweep, "patient", str(workplace / "store"), debug=True, console=Console(quiet=True)
    )
    with pytest.raises(SweepFailedError, match=r"search.max_hours = 1e-05 is spent: 0 of "):
        resume(overrides=["search.max_hours=0.00001"])
    store = SweepStore(str(workplace / "store"), "patient")
    (pilot,) = store.pilot().load_records()
    assert (pilot.state, store.load_sweep().training.epochs) == ("running", 60)
    result = resume(overrides=["search.max_hours=1"])
    epochs = store.load_sweep().training.epochs
    (pilot,) = store.pilot().load_records()
    assert (pilot.state, epochs < pilot.epochs < 60) == ("stopped", True)
    assert {r.epochs for r in result.records if r.state == "finished"} == {epochs}
    assert result.records[0].outcome["lr"] < 0.1 * recipe["lr"]


def test_trainings_are_lengthened_while_whole_ones_are_better(workplace: Path) -> None:
    recipe = {"epochs": 1, "patience": 1, "longest": 4, "lr": 0.002, "batch_size": 64}
    run(workplace, "growing", training=recipe, search={"trials": 1})
    store = SweepStore(str(workplace / "store"), "growing")
    found = [store.pilot(each).load_records() for each in (None, 2, 4)]
    assert [(r.state, r.epochs) for (r,) in found] == [("finished", n) for n in (1, 2, 4)]
    assert store.load_sweep().training.epochs == 4
    assert {record.epochs for record in store.load_records()} == {4}
    resume_sweep("growing", str(workplace / "store"), debug=True, console=Console(quiet=True))
    assert store.load_sweep().training.epochs == 4


def test_if_every_trial_fails_the_sweep_fails_with_the_reasons(workplace: Path) -> None:
    with pytest.raises(SweepFailedError, match=r"diverged: .*\n.*driver\.log"):
        run(
            workplace,
            "hopeless",
            losses=["focal"],
            search={"trials": 2},
            training={"epochs": 1, "lr": 1e6, "batch_size": 64},
        )
    records = SweepStore(str(workplace / "store"), "hopeless").load_records()
    assert [record.state for record in records] == ["failed", "failed"]
    patient = {"epochs": 2, "patience": 1, "lr": 1e6, "batch_size": 64}
    for act in (
        lambda: run(workplace, "hopeless-baseline", training=patient),
        lambda: resume_sweep("hopeless-baseline", str(workplace / "store"), debug=True),
    ):
        with pytest.raises(SweepFailedError, match=r"the baseline failed.*\n.*diverged: .*\n"):
            act()
    assert SweepStore(str(workplace / "store"), "hopeless-baseline").load_records() == []


def test_batches_too_small_for_the_workers_are_refused_once_the_data_are_known() -> None:
    sweep = parse_sweep(
        {
            "name": "few",
            "dataset": {"name": "digits", "train_samples": 11},
            "model": "small_cnn",
            "losses": ["focal"],
            "training": {"batch_size": 5},
            "scaling": {"num_workers": 4},
        }
    )
    message = "training.batch_size = 5 cuts 11 training samples .* num_workers = 4; .* 8 or more"
    with pytest.raises(UserError, match=message):
        fit_to_data(sweep, load_data(sweep))


def test_metrics_are_finite(first: EndedSweep) -> None:
    for record in first.records:
        assert all(math.isfinite(value) for entry in record.history for value in entry.values())
