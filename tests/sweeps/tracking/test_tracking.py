"""Trials in a real MLflow, written by one writer after another, and read back."""

import json
import re
import socket
import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from mlflow import MlflowClient
from mlflow.entities import Run
from ruamel.yaml import YAML

from sweeps.errors import SweepFailedError, UserError
from sweeps.results.best import as_sweep_file, best_settings, render_best
from sweeps.results.explanation import selection_summary
from sweeps.runner import sync_sweep
from sweeps.search.ranking import Ranking
from sweeps.search.record import TrialRecord
from sweeps.store.sweep_store import SweepStore
from sweeps.sweep_file.loading import parse_sweep
from sweeps.sweep_file.schema import SweepFile
from sweeps.tracking.address import check_answers, make_database, tracking_uri
from sweeps.tracking.artifacts import collect_artifacts
from sweeps.tracking.reader import read_sweep_file, tracked_sweeps
from sweeps.tracking.writer import MlflowWriter
from trainables.checkpoints import save_checkpoint
from trainables.outcome import write_predictions

ENVIRONMENT = {"python": "3"}
ARTIFACTS = {
    "checkpoint.pt",
    "environment.json",
    "predictions_test.parquet",
    "predictions_validation.parquet",
    "reliability.svg",
    "sweep.yaml",
}


def make_sweep(name: str, **sections: Any) -> SweepFile:
    return parse_sweep(
        {
            "name": name,
            "dataset": "digits",
            "model": "small_cnn",
            "losses": ["focal", "mbls"],
            "training": {"epochs": 3},
            **sections,
        }
    )


def entry(epoch: int, **values: float) -> dict[str, float]:
    validation = {"val_ece": 0.1 / epoch, "val_error": 0.1, "val_nll": 0.5 / epoch}
    test = {"temperature": 1.3, "test_ece": 0.2, "test_error": 0.1, "test_nll": 0.4}
    train = {"train_loss": 1 / epoch}
    return {"epoch": epoch, "timestamp": 1e9 + epoch, **train, **validation, **test, **values}


def make_records() -> list[TrialRecord]:
    """Finished, stopped and failed trials, finalists, and a degenerate one with an ECE of 0."""

    def trial(number: int, loss: str, gamma: float | None, **values: Any) -> TrialRecord:
        hyperparameters = {} if gamma is None else {"gamma": gamma}
        changes = {"ended": 1e9 + 60, "state": "finished", **values}
        made = TrialRecord(number, "search", loss, hyperparameters, 0, 1e9, history=[entry(1)])
        return replace(made, **changes)

    def whole(**last: float) -> list[dict[str, float]]:
        return [entry(1), entry(2), entry(3, **last)]

    lucky, steady = 1 / 3, 0.1 + 0.2  # floats that do not print short
    return [
        trial(0, "cross_entropy", None, role="baseline", history=whole(val_ece=0.05)),
        trial(1, "focal", lucky, role="published", history=whole(val_ece=0.01)),
        trial(2, "focal", steady, history=whole(val_ece=0.02)),
        trial(3, "focal", 9.0, history=whole(val_ece=0.0, val_error=0.9)),
        trial(4, "focal", 8.0, state="stopped", reason="val_nll too high after epoch 1"),
        trial(5, "focal", 7.0, state="failed", reason="diverged", history=[]),
        trial(6, "focal", lucky, role="finalist", seed=1, history=whole(val_ece=0.04)),
        trial(7, "focal", steady, role="finalist", seed=1, history=whole(val_ece=0.03)),
    ]


def make_store(folder: Path, sweep: SweepFile, records: list[TrialRecord]) -> SweepStore:
    store = SweepStore(str(folder), sweep.name)
    store.create(sweep)
    for record in records:
        store.save(record)
        if record.history:
            own = store.trial_folder(record.number)
            save_checkpoint(own / "checkpoints", len(record.history), {"weights": torch.ones(3)})
            for split in ("validation", "test"):
                write_predictions(own, split, (torch.eye(10), torch.arange(10)))
    return store


def client_of(storage: Path) -> MlflowClient:
    return MlflowClient(tracking_uri(str(storage)))


def runs_of(storage: Path, sweep: str) -> dict[str, Run]:
    """Runs of a sweep by trial number; the parent under ""."""
    client, sweep_id = client_of(storage), SweepStore(str(storage), sweep).sweep_id()
    (experiment,) = client.search_experiments(filter_string="tags.calsweep = '1'")
    own = f"tags.`calsweep.sweep_id` = '{sweep_id}'"
    found = client.search_runs([experiment.experiment_id], own)
    runs = {run.data.tags.get("calsweep.trial", ""): run for run in found}
    assert len(runs) == len(found), "a trial has two runs"
    return runs


@pytest.fixture(scope="module")
def storage(tmp_path_factory: pytest.TempPathFactory) -> Path:
    # MLflow takes seconds to make a database, so all tests here share one.
    return tmp_path_factory.mktemp("my own store")


@pytest.fixture(scope="module")
def written(storage: Path) -> list[TrialRecord]:
    """A whole sweep, written by the background thread as it would be while it runs."""
    sweep, records = make_sweep("whole"), make_records()
    store = make_store(storage, sweep, records)
    writer = MlflowWriter(sweep, store, ENVIRONMENT)
    for record in records:
        state, history = record.state, record.history
        growing = replace(record, state="running", ended=None, history=[])
        writer.submit(growing)
        for each in history:
            growing.add(each)
            writer.submit(growing)
        growing.state, growing.reason, growing.ended = state, record.reason, record.ended
        writer.submit(growing)
    assert writer.close(patience=60) == 0
    writer.finish_sweep("FINISHED", selection_summary(Ranking(records, sweep.rule), sweep))
    return records


def test_every_trial_is_a_run_under_the_sweeps_own(
    storage: Path, written: list[TrialRecord]
) -> None:
    runs = runs_of(storage, "whole")
    parent = runs.pop("")
    assert sorted(runs) == [str(record.number) for record in written]
    assert {run.data.tags["mlflow.parentRunId"] for run in runs.values()} == {parent.info.run_id}
    names = {number: run.info.run_name for number, run in runs.items()}
    assert names["0"] == "cross_entropy"
    assert names["1"] == "focal γ=0.3333"
    assert names["6"] == "focal γ=0.3333 seed=1"
    assert parent.info.run_name == "whole"
    assert parent.info.status == "FINISHED"
    assert parent.data.tags["best_loss"] == "focal"
    assert parent.data.metrics["best_val_ece"] == 0.03
    statuses = {number: run.info.status for number, run in runs.items()}
    assert [number for number, status in statuses.items() if status != "FINISHED"] == ["5"]
    assert statuses["5"] == "FAILED"
    assert runs["5"].data.tags["reason"] == "diverged"
    assert runs["4"].data.tags["state"] == "stopped"
    assert runs["0"].data.tags["role"] == "baseline"


def test_parameters_have_one_name_and_sort_as_text(
    storage: Path, written: list[TrialRecord]
) -> None:
    runs = runs_of(storage, "whole")
    parameters = runs["1"].data.params
    assert {"loss", "gamma", "seed", "dataset", "model", "epochs", "lr"} <= parameters.keys()
    assert parameters["dataset"] == "digits"
    gammas = [runs[n].data.params["gamma"] for n in "123"]
    assert gammas == [f"{value:14.6f}" for value in (1 / 3, 0.3, 9.0)]
    assert sorted(gammas, key=float) == sorted(gammas)


def test_metrics_are_there_by_epoch(storage: Path, written: list[TrialRecord]) -> None:
    client, runs = client_of(storage), runs_of(storage, "whole")
    for record in written:
        history = client.get_metric_history(runs[str(record.number)].info.run_id, "val_ece")
        assert [(m.step, m.value) for m in sorted(history, key=lambda m: m.step)] == [
            (each["epoch"], each["val_ece"]) for each in record.history
        ]
    assert "epoch" not in runs["0"].data.metrics


def test_artifacts_and_the_kind_of_experiment(storage: Path, written: list[TrialRecord]) -> None:
    client, runs = client_of(storage), runs_of(storage, "whole")
    for number, wanted in (("0", ARTIFACTS), ("5", {"environment.json", "sweep.yaml"})):
        names = {a.path for a in client.list_artifacts(runs[number].info.run_id)}
        assert names == wanted
    parent = {a.path for a in client.list_artifacts(runs[""].info.run_id)}
    assert parent == {"environment.json", "sweep.yaml", "selection.json"}
    path = client.download_artifacts(runs["0"].info.run_id, "checkpoint.pt")
    assert torch.load(path, weights_only=True)["weights"].tolist() == [1, 1, 1]
    experiment = client.get_experiment(runs[""].info.experiment_id)
    assert experiment.name == "digits"
    assert experiment.tags["mlflow.experimentKind"] == "custom_model_development"


def contents(storage: Path, sweep: str) -> dict[str, Any]:
    client = client_of(storage)
    return {
        number: (
            run.info.run_id,
            run.data.params,
            run.data.tags,
            run.info.status,
            {
                name: sorted(
                    (m.step, m.value, m.timestamp)
                    for m in client.get_metric_history(run.info.run_id, name)
                )
                for name in run.data.metrics
            },
        )
        for number, run in runs_of(storage, sweep).items()
    }


def test_writing_it_all_again_adds_nothing(storage: Path, written: list[TrialRecord]) -> None:
    before = contents(storage, "whole")
    sweep = make_sweep("whole")
    writer = MlflowWriter(sweep, SweepStore(str(storage), "whole"), ENVIRONMENT)
    for record in written:
        writer.sync(record)
        writer.sync(record)
    assert contents(storage, "whole") == before


def test_a_writer_goes_on_where_another_died(storage: Path, written: list[TrialRecord]) -> None:
    sweep, records = make_sweep("crashed"), make_records()[:3]
    store = make_store(storage, sweep, records)
    first = MlflowWriter(sweep, store, ENVIRONMENT)
    first.sync(records[0])
    first.sync(replace(records[1], state="running", ended=None, history=records[1].history[:2]))
    died = runs_of(storage, "crashed")
    # The last checkpoint was damaged, so that an epoch was trained again.
    records[1].history[1] |= {"timestamp": 1e9 + 50}
    second = MlflowWriter(sweep, store, ENVIRONMENT)
    second.sync(replace(records[1], state="running", ended=None, history=records[1].history[:1]))
    for record in records:
        second.sync(record)
    found = contents(storage, "crashed")
    assert sorted(found) == ["", "0", "1", "2"]
    assert all(found[number][0] == run.info.run_id for number, run in died.items())
    assert [step for step, *_ in found["1"][4]["val_ece"]] == [1, 2, 3]
    assert found["1"][3] == "FINISHED"


def test_two_sweeps_of_one_name_are_kept_apart(
    storage: Path, written: list[TrialRecord], tmp_path: Path
) -> None:
    uri = tracking_uri(str(storage))
    sweep = make_sweep("whole", tracking={"uri": uri}, model={"name": "resnet18_cifar"})
    record = replace(make_records()[0], history=[])
    MlflowWriter(sweep, make_store(tmp_path, sweep, [record]), ENVIRONMENT).sync(record)
    found = [s for s in tracked_sweeps(uri) if s.name == "whole"]
    assert sorted(len(s.records) for s in found) == [1, len(written)]
    assert len({s.sweep_id for s in found}) == len({s.parent_id for s in found}) == 2
    (other,) = tracked_sweeps(uri, model="resnet18_cifar")
    assert len(other.records) == 1
    assert tracked_sweeps(uri, dataset="cifar10") == []


def test_a_long_sweep_is_read_as_far_as_it_decides(storage: Path, tmp_path: Path) -> None:
    uri = tracking_uri(str(storage))
    sweep = make_sweep("long", tracking={"uri": uri}, model={"name": "resnet101_cifar"})
    first, *_ = records = [r for r in make_records() if r.role != "finalist"]
    for number in range(len(records), 240):  # stopped ones have the lowest ECE, some do not count
        values = {"val_ece": 0.4 - number / 1000, "val_error": 0.9 if number > 200 else 0.1}
        stopped = replace(records[4], number=number, history=[entry(1, val_ece=0.001)])
        whole = replace(records[2], number=number, history=[entry(3, **values)])
        made = stopped if number % 3 == 0 else whole
        records.append(replace(made, hyperparameters={"gamma": float(number)}))
    for number in (200, 199):
        again = replace(records[number], number=len(records), role="finalist", seed=1)
        records.append(again)
    store = SweepStore(str(tmp_path), sweep.name)
    store.create(sweep)
    writer = MlflowWriter(sweep, store, ENVIRONMENT)
    for record in records:
        writer.sync(record)
    chosen = Ranking(records, sweep.rule).chosen
    assert chosen is not None and chosen.trials[0].number == 200
    (tracked,) = tracked_sweeps(uri, model="resnet101_cifar")
    assert len(tracked.records) < len(records) and first.setting == tracked.records[0].setting
    (found,) = best_settings([tracked])
    assert found["hyperparameters"] == {"gamma": 200.0}
    assert found["run_id"] == tracked.run_ids[200]


def test_the_answer_from_mlflow_is_the_one_from_the_records(
    storage: Path, written: list[TrialRecord]
) -> None:
    uri, sweep = tracking_uri(str(storage)), make_sweep("whole")
    (tracked,) = [s for s in tracked_sweeps(uri, model="small_cnn") if s.name == "whole"]
    assert [(r.number, r.role, r.setting, r.seed, r.state, r.reason) for r in tracked.records] == [
        (r.number, r.role, r.setting, r.seed, r.state, r.reason) for r in written
    ]
    chosen = Ranking(written, sweep.rule).chosen
    assert chosen is not None and chosen.trials[0].number == 2
    (found,) = best_settings([tracked])
    assert found["loss"] == "focal"
    assert found["hyperparameters"] == {"gamma": 0.1 + 0.2}
    assert found["seeds"] == 1
    assert found["val"]["ece"] == chosen.objective == 0.03
    assert found["temperature"] == 1.3
    assert found["run_id"] == runs_of(storage, "whole")["2"].info.run_id
    resolved = YAML(typ="safe").load(read_sweep_file(uri, found["parent_run_id"]))
    alone = parse_sweep(as_sweep_file(found, resolved))
    assert alone.training == sweep.training
    json.dumps(found, allow_nan=False)


def closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_a_server_that_is_gone_stops_nothing(tmp_path: Path) -> None:
    uri = f"http://127.0.0.1:{closed_port()}"
    sweep, records = make_sweep("unheard", tracking={"uri": uri}), make_records()
    writer = MlflowWriter(sweep, make_store(tmp_path, sweep, records), ENVIRONMENT)
    for record in records:
        writer.submit(record)
        writer.submit(record)
    waited: list[int] = []
    assert writer.close(patience=0.5, on_wait=waited.append) == len(records)
    assert waited[-1] == len(records)
    assert writer.fault is not None
    with pytest.raises(UserError, match=rf"tracking.uri = '{uri}' does not answer"):
        check_answers(uri)
    with pytest.raises(UserError, match="does not answer"):
        tracked_sweeps(uri)


def test_a_writer_with_nothing_to_write_makes_no_database(tmp_path: Path) -> None:
    sweep = make_sweep("idle")
    writer = MlflowWriter(sweep, make_store(tmp_path, sweep, []), ENVIRONMENT)
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
    writer = MlflowWriter(sweep, store, ENVIRONMENT)
    for record in records:
        writer.submit(record)
    with caplog.at_level("ERROR", logger="calsweep"):
        assert writer.close(patience=60) == 1
    assert re.search(r"trial 1: its files in .*damaged/trials/00001: .*[Pp]arquet", caplog.text)
    assert writer.behind == 0
    statuses = {n: run.info.status for n, run in runs_of(storage, "damaged").items()}
    assert statuses == {"": "RUNNING", "0": "FINISHED", "1": "RUNNING", "2": "FINISHED"}
    with pytest.raises(SweepFailedError, match=r"not in MLflow in full:\ntrial 1: its files in"):
        sync_sweep("damaged", str(storage))
    store.trial_folder(1).write("predictions_test.parquet", whole)
    assert sync_sweep("damaged", str(storage)) == 3
    statuses = {n: run.info.status for n, run in runs_of(storage, "damaged").items()}
    assert set(statuses.values()) == {"FINISHED"}


def test_a_damaged_checkpoint_is_not_taken_for_the_model(tmp_path: Path) -> None:
    store = make_store(tmp_path, make_sweep("a"), [])
    checkpoints, (record, *_) = store.trial_folder(0) / "checkpoints", make_records()
    for epoch in (2, 3):
        name = save_checkpoint(checkpoints, epoch, {"epoch": epoch})
    checkpoints.write(name, checkpoints.read(name)[:-20])
    (tmp_path / "out").mkdir()
    collect_artifacts(store, record, {}, tmp_path / "out")
    assert torch.load(tmp_path / "out/checkpoint.pt", weights_only=True) == {"epoch": 2}


def test_a_sweep_file_is_written_of_one_answer_only(
    storage: Path, written: list[TrialRecord], capsys: pytest.CaptureFixture[str]
) -> None:
    uri = tracking_uri(str(storage))
    (tracked,) = [s for s in tracked_sweeps(uri, model="small_cnn") if s.name == "whole"]
    entries = best_settings([tracked, replace(tracked, dataset="cifar10")])
    with pytest.raises(UserError) as caught:
        render_best(entries, "yaml", uri)
    assert str(caught.value).splitlines()[1:] == [
        "  --dataset cifar10 --model small_cnn",
        "  --dataset digits --model small_cnn",
    ]
    assert "--format yaml writes one sweep file, and there are 2 answers" in str(caught.value)
    render_best(entries[1:], "yaml", uri)
    printed = YAML(typ="safe").load(capsys.readouterr().out)
    assert parse_sweep(printed).losses[0].name == "focal"


@pytest.mark.parametrize(
    ("storage", "own", "environment", "expected"),
    [
        ("/a/b", None, None, "sqlite:////a/b/mlflow.db"),
        ("file:///a/b", None, None, "sqlite:////a/b/mlflow.db"),
        ("/a/b", None, "http://host:5000", "http://host:5000"),
        ("/a/b", "https://own", "http://host:5000", "https://own"),
        ("s3://bucket/x", "postgresql+psycopg://host/x", None, "postgresql+psycopg://host/x"),
    ],
)
def test_where_mlflow_is(
    monkeypatch: pytest.MonkeyPatch,
    storage: str,
    own: str | None,
    environment: str | None,
    expected: str,
) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    if environment is not None:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", environment)
    assert tracking_uri(storage, make_sweep("a", tracking={"uri": own})) == expected


@pytest.mark.parametrize(
    ("storage", "own", "message"),
    [
        ("/a/b", "ftp://x", r"tracking.uri = 'ftp://x' is not allowed; allowed: .*http:"),
        ("/a/b", "mlruns", r"tracking.uri = 'mlruns' is not allowed"),
        ("nope://x", None, r"tracking.uri is missing: with a remote storage \(nope://x\)"),
    ],
)
def test_where_mlflow_cannot_be(
    monkeypatch: pytest.MonkeyPatch, storage: str, own: str | None, message: str
) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    with pytest.raises(UserError, match=message):
        tracking_uri(storage, make_sweep("a", tracking={"uri": own}))


def test_mlflows_database_is_made_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "new" / "mlflow.db"
    uri = f"sqlite:///{path}"
    make_database(uri)
    before = path.read_bytes()
    make_database(uri)
    assert path.read_bytes() == before
    assert [p.name for p in path.parent.iterdir()] == ["mlflow.db"]
    assert tracked_sweeps(uri) == []


def test_a_database_that_mlflow_refuses_is_told_in_one_message(tmp_path: Path) -> None:
    path = tmp_path / "mlflow.db"
    make_database(f"sqlite:///{path}")
    with sqlite3.connect(path) as connection:
        connection.execute("DELETE FROM alembic_version")  # as if cut off in its migrations
    with pytest.raises(UserError, match=r"tracking\.uri = 'sqlite:"):
        tracked_sweeps(f"sqlite:///{path}")
