"""Trials in a real MLflow, written by successive mirrors."""

import json
import shutil
import threading
import time
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import torch
from mlflow import MlflowClient
from ruamel.yaml import YAML

from sweeps.results.columns import LeaderboardRow
from sweeps.results.evidence import EnsembleEvidence, Evidence
from sweeps.results.verdicts import Verdict
from sweeps.search.plan import Plan
from sweeps.search.record import TrialRecord
from sweeps.store.identity import Identity, identity_files
from sweeps.store.sweep_store import SweepStore
from sweeps.sweep_file.loading import parse_sweep
from sweeps.tracking.address import tracking_uri
from sweeps.tracking.artifacts import collect_artifacts
from sweeps.tracking.mirror import Mirror
from sweeps.tracking.reader import read_sweep_file, tracked_sweeps
from sweeps.tracking.refusals import NotTakenError
from sweeps.tracking.run import run_tags
from sweeps.tracking.run_files import RunFiles
from sweeps.tracking.view import Leaderboard
from tests.builders import compared
from tests.harness.database import empty_database
from tests.harness.tracked import (
    client_of,
    ending_of,
    entry,
    make_mirror,
    make_records,
    make_store,
    make_sweep,
    runs_of,
    write_whole,
)
from trainables.contract.setting import Setting
from trainables.files.checkpoints import save_checkpoint

ARTIFACTS = {
    "checkpoint.pt",
    "environment.json",
    "metrics.json",
    "predictions_test.parquet",
    "predictions_validation.parquet",
    "reliability.svg",
    "sweep.yaml",
}


def test_every_trial_is_a_run_under_the_sweeps_own(
    storage: Path, written: list[TrialRecord]
) -> None:
    runs = runs_of(storage, "whole")
    parent = runs.pop("")
    assert sorted(runs) == [str(record.number) for record in written]
    assert {run.data.tags["mlflow.parentRunId"] for run in runs.values()} == {parent.info.run_id}
    names = {number: run.info.run_name for number, run in runs.items()}
    assert names["0"] == "★ cross_entropy"
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


def test_parameters_have_one_name_and_are_found_by_their_value(
    storage: Path, written: list[TrialRecord]
) -> None:
    runs = runs_of(storage, "whole")
    parameters = runs["1"].data.params
    assert {"loss", "gamma", "seed", "dataset", "model", "epochs", "lr"} <= parameters.keys()
    assert parameters["dataset"] == "digits"
    assert [runs[n].data.params["gamma"] for n in "123"] == ["0.3333", "0.3", "9"]
    found = client_of(storage).search_runs([runs["1"].info.experiment_id], "params.gamma = '9'")
    assert [run.info.run_id for run in found] == [runs["3"].info.run_id]


def test_metrics_are_there_by_epoch(storage: Path, written: list[TrialRecord]) -> None:
    client, runs = client_of(storage), runs_of(storage, "whole")
    for record in written:
        history = client.get_metric_history(runs[str(record.number)].info.run_id, "val_ece")
        assert [(m.step, m.value) for m in sorted(history, key=lambda m: m.step)] == [
            (each["epoch"], each["val_ece"]) for each in record.history
        ]
    assert "epoch" not in runs["0"].data.metrics


def test_artifacts_are_there(storage: Path, written: list[TrialRecord]) -> None:
    client, runs = client_of(storage), runs_of(storage, "whole")
    for number, wanted in (("0", ARTIFACTS), ("5", {"environment.json", "sweep.yaml"})):
        names = {a.path for a in client.list_artifacts(runs[number].info.run_id)}
        assert names == wanted
    parent = {a.path for a in client.list_artifacts(runs[""].info.run_id)}
    results = {"best.yaml", "figures", "report.html", "selection.json"}
    assert parent == {"environment.json", "sweep.yaml", "skipped_samples.txt", *results}
    path = client.download_artifacts(runs["0"].info.run_id, "checkpoint.pt")
    assert torch.load(path, weights_only=True)["weights"].tolist() == [1, 1, 1]
    experiment = client.get_experiment(runs[""].info.experiment_id)
    assert experiment.name == "digits"


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
    mirror = Mirror(Plan(sweep), SweepStore(str(storage), "whole"))
    for record in written:
        write_whole(mirror, record)
        write_whole(mirror, record)
    assert contents(storage, "whole") == before


def test_a_writer_continues_where_another_died(storage: Path, written: list[TrialRecord]) -> None:
    sweep, records = make_sweep("crashed"), make_records()[:3]
    store = make_store(storage, sweep, records)
    first = Mirror(Plan(sweep), store)
    write_whole(first, records[0])
    write_whole(
        first, replace(records[1], state="running", ended=None, history=records[1].history[:2])
    )
    died = runs_of(storage, "crashed")
    # The last checkpoint was damaged, so an epoch was trained again.
    records[1].history[1] |= {"timestamp": 1e9 + 50}
    second = Mirror(Plan(sweep), store)
    write_whole(
        second, replace(records[1], state="running", ended=None, history=records[1].history[:1])
    )
    for record in records:
        write_whole(second, record)
    found = contents(storage, "crashed")
    assert sorted(found) == ["", "0", "1", "2"]
    assert all(found[number][0] == run.info.run_id for number, run in died.items())
    assert [step for step, *_ in found["1"][4]["val_ece"]] == [1, 2, 3]
    assert found["1"][3] == "FINISHED"


def test_an_ensemble_has_metrics_and_its_cost(fresh: Path) -> None:
    sweep, records = make_sweep("several"), make_records()
    mirror = make_mirror(fresh, sweep, records)
    ending = ending_of(records, sweep)
    found = {"test_ece": 0.01, "test_error": 0.25, "temperature": 1.2, "val_ece": float("nan")}
    row = LeaderboardRow("ensemble", "ensemble", "3 networks", found)
    evidence = Evidence(ensemble=EnsembleEvidence(row, (), 3, 1.2, 0.1))
    mirror.answer(replace(ending, result=replace(ending.result, evidence=evidence)))
    metrics = runs_of(fresh, "several")[""].data.metrics
    assert {name: value for name, value in metrics.items() if "ensemble" in name} == {
        "ensemble_networks": 3,
        "ensemble_test_ece": 0.01,
        "ensemble_test_error": 0.25,
        "ensemble_temperature": 1.2,
    }


def test_the_environment_stays_that_of_the_sweep(fresh: Path, tmp_path: Path) -> None:
    sweep = make_sweep("moved")
    make_mirror(fresh, sweep, []).connect()
    parent = runs_of(fresh, "moved")[""].info.run_id

    def kept() -> str:
        path = client_of(fresh).download_artifacts(parent, "environment.json", str(tmp_path))
        return Path(path).read_text()

    assert kept() == '{\n "python": "3"\n}'
    store = SweepStore(str(fresh), "moved")
    store.folder.delete("environment.json")  # like a sweep of an older version
    Mirror(Plan(sweep), store).connect()
    assert kept() == '{\n "python": "3"\n}'


def test_a_damaged_checkpoint_is_not_taken_for_the_model(tmp_path: Path) -> None:
    store = make_store(tmp_path, make_sweep("a"), [])
    checkpoints, (record, *_) = store.trial_folder(0) / "checkpoints", make_records()
    for epoch in (2, 3):
        name = save_checkpoint(checkpoints, epoch, {"epoch": epoch})
    checkpoints.write(name, checkpoints.read(name)[:-20])
    (tmp_path / "out").mkdir()
    collect_artifacts(store, record, {}, tmp_path / "out")
    assert torch.load(tmp_path / "out/checkpoint.pt", weights_only=True) == {"epoch": 2}


def test_a_deleted_experiment_stays_deleted_and_stops_nothing(fresh: Path) -> None:
    client = client_of(fresh)
    client.delete_experiment(client.create_experiment("digits", fresh.as_uri()))
    sweep, records = make_sweep("later"), make_records()[:2]
    mirror = make_mirror(fresh, sweep, records)
    for record in records:
        write_whole(mirror, record)
    experiment = client.get_experiment(runs_of(fresh, "later")[""].info.experiment_id)
    assert experiment.name == "digits (2)"
    assert [e.name for e in client.search_experiments()] == ["digits (2)", "Default"]
    (tracked,) = tracked_sweeps(tracking_uri(str(fresh)), dataset="digits")
    assert len(tracked.records) == 2
    # The next sweep on the same data joins the first.
    make_mirror(fresh, make_sweep("next"), []).connect()
    assert len(client.search_experiments()) == 2


def test_an_experiment_that_somebody_else_made_is_joined(fresh: Path) -> None:
    client = client_of(fresh)
    theirs = client.create_experiment("digits", fresh.as_uri(), {"owner": "somebody else"})
    client.create_run(theirs)
    sweep, records = make_sweep("guest"), make_records()[:2]
    mirror = make_mirror(fresh, sweep, records)
    for record in records:
        write_whole(mirror, record)
    assert client.get_experiment(theirs).tags["owner"] == "somebody else"
    (tracked,) = tracked_sweeps(tracking_uri(str(fresh)))
    assert [record.number for record in tracked.records] == [0, 1]


def test_hyperparameters_are_not_mistaken_for_the_recipe(fresh: Path) -> None:
    own = {"lr": 0.33, "seed": 7, "loss": 2.5, "epochs": 1e-7, "gamma": 1.0}
    losses = [{"name": "focal", "hyperparameters": {"gamma": 1.0}}]
    sweep = make_sweep("own", losses=losses, training={"epochs": 3, "lr": 0.1})
    record = replace(make_records()[0], role="search", setting=Setting("my_losses:Mine", own))
    write_whole(make_mirror(fresh, sweep, [record]), record)
    parameters = runs_of(fresh, "own")["0"].data.params
    assert (parameters["lr"], parameters["loss.lr"]) == ("0.1", "0.33")
    assert (parameters["seed"], parameters["loss.seed"]) == ("0", "7")
    assert (parameters["loss"], parameters["loss.loss"]) == ("my_losses:Mine", "2.5")
    assert (parameters["epochs"], parameters["loss.epochs"]) == ("3", "0.0000001")
    assert parameters["gamma"] == "1"
    (tracked,) = tracked_sweeps(tracking_uri(str(fresh)))
    assert tracked.records[0].hyperparameters == own


def test_a_run_keeps_the_parameters_that_an_earlier_version_wrote(fresh: Path) -> None:
    sweep, records = make_sweep("upgraded"), make_records()[:2]
    mirror = make_mirror(fresh, sweep, records)
    mirror.connect()
    client, (parent,) = client_of(fresh), runs_of(fresh, "upgraded").values()
    tags = run_tags(
        Plan(sweep), parent.data.tags["calsweep.sweep_id"], records[1], parent.info.run_id
    )
    run = client.create_run(parent.info.experiment_id, tags=tags)
    client.log_param(run.info.run_id, "gamma", "      0.333333")  # MLflow does not allow changes
    again = Mirror(Plan(sweep), SweepStore(str(fresh), "upgraded"))
    write_whole(again, records[1])
    parameters = runs_of(fresh, "upgraded")["1"].data.params
    assert parameters["gamma"] == "      0.333333" and parameters["loss"] == "focal"


@pytest.mark.parametrize("name", ["a%20b", "what?", "two words #1", "ünï+cödé=100%"])
def test_any_path_may_hold_the_storage(tmp_path: Path, name: str) -> None:
    storage = tmp_path / name / "store"
    storage.mkdir(parents=True)
    shutil.copyfile(empty_database(), storage / "mlflow.db")
    sweep, (record, *_) = make_sweep("odd"), make_records()
    write_whole(make_mirror(storage, sweep, [record]), record)
    uri = tracking_uri(str(storage))
    (tracked,) = tracked_sweeps(uri)
    assert [r.number for r in tracked.records] == [0]
    assert "name: odd" in read_sweep_file(uri, tracked.parent_id)
    assert (storage / "artifacts" / "digits" / tracked.run_ids[0]).is_dir()
    assert sorted(path.name for path in tmp_path.iterdir()) == [name]
    assert {path.name for path in storage.iterdir()} == {"artifacts", "mlflow.db", "sweeps"}


def test_runs_sorted_by_rank_have_the_chosen_setting_first(
    storage: Path, written: list[TrialRecord]
) -> None:
    runs = runs_of(storage, "whole")
    found = client_of(storage).search_runs(
        [runs[""].info.experiment_id],
        f"tags.`calsweep.sweep_id` = '{runs[''].data.tags['calsweep.sweep_id']}'",
        order_by=["tags.`rank` ASC", "attributes.run_name ASC"],
    )
    assert [(run.info.run_name, run.data.tags["rank"].strip()) for run in found] == [
        ("whole", "–"),
        ("focal γ=0.3", "1"),
        ("focal γ=0.3 seed=1", "1"),
        ("focal γ=0.3333", "2"),
        ("focal γ=0.3333 seed=1", "2"),
        ("★ cross_entropy", "3"),
        ("focal γ=9", "error too high"),
        ("focal γ=7", "failed"),
        ("focal γ=8", "stopped"),
    ]
    assert {run.data.tags["sweep"] for run in found} == {"whole"}
    assert (found[1].data.tags["val ECE"], found[1].data.tags["T"]) == (".0200", "1.30")


def test_metrics_that_a_trial_gets_later_are_added(fresh: Path) -> None:
    sweep, records = make_sweep("later-metrics"), make_records()[:3]
    mirror = make_mirror(fresh, sweep, records)
    for record in records:
        write_whole(mirror, record)
    records[0].complete({**records[0].outcome, "test_auroc": 0.75, "test_ece_low": 0.01})
    mirror.answer(ending_of(records, sweep))
    run, client = runs_of(fresh, sweep.name)["0"], client_of(fresh)
    assert run.data.metrics["test_auroc"] == 0.75
    assert run.data.tags["rank"].strip() == "3"  # not "finished"
    epochs = client.get_metric_history(run.info.run_id, "val_ece")
    assert len(epochs) == len(records[0].history)
    file = Path(client.download_artifacts(run.info.run_id, "metrics.json"))
    assert json.loads(file.read_text())["test_ece_low"] == 0.01


def test_the_parent_run_describes_the_sweep(storage: Path, written: list[TrialRecord]) -> None:
    client, parent = client_of(storage), runs_of(storage, "whole")[""]
    note = parent.data.tags["mlflow.note.content"]
    assert note.startswith("**Recommended: cross-entropy with a temperature (trial 0, T = 1.30).")
    assert "Selected: focal γ=0.3" in note
    assert "| focal&ensp; | γ=0.3&ensp; | .1000 | .0300 |" in note
    assert "| 1.30&ensp; | selected |" in note
    best = client.download_artifacts(parent.info.run_id, "best.yaml")
    alone = parse_sweep(YAML(typ="safe").load(Path(best).read_text()))
    assert [section.hyperparameters for section in alone.losses] == [{"gamma": 0.1 + 0.2}]
    page = Path(client.download_artifacts(parent.info.run_id, "report.html")).read_text()
    assert "focal γ=0.3" in page
    pictures = {a.path for a in client.list_artifacts(parent.info.run_id, "figures")}
    assert pictures == {"figures/curves.svg", "figures/error_against_objective.svg"}


def test_each_sweep_on_the_same_data_has_its_own_leaderboard(fresh: Path) -> None:
    boards = []
    for name in ("first", "second"):
        mirror = make_mirror(fresh, make_sweep(name), [], "d1" * 8)
        assert mirror.leaderboard is None
        mirror.connect()
        boards.append(mirror.leaderboard)
    first, second = boards
    assert first is not None and second is not None
    assert first.experiment_id == second.experiment_id
    assert first.link("http://h") != second.link("http://h")
    tags = client_of(fresh).get_experiment(first.experiment_id).tags
    for board in (first, second):
        view = json.loads(tags[board.tag])
        assert board.tag.removeprefix("mlflow.sharedViewState.") in board.link("http://h")
        assert f"= '{board.sweep_id}'" in view["searchFilter"]
        assert view["selectedColumns"][:3] == [
            *("tags.`rank`", "tags.`ECE with T`", "tags.`test error`"),
        ]
        assert not {"params.`seed`", "duration"} & set(view["selectedColumns"])
        assert view["columnOrder"][-1] == "duration"


def test_a_link_is_printed_only_if_a_server_has_the_leaderboard() -> None:
    board = Leaderboard("7", "birds", "d1" * 16)
    asked: list[str] = []

    class Server(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            tag = board.tag if self.path.endswith("experiment_id=7") else "another"
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps({"experiment": {"tags": [{"key": tag}]}}).encode())

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Server) as server:
        address = f"http://127.0.0.1:{server.server_port}"
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        assert board.is_served(address)
        assert not replace(board, experiment_id="8").is_served(address)  # of another storage
        server.shutdown()
    assert len(asked) == 2
    assert not board.is_served(address)


def test_the_sweeps_own_run_ends_with_its_last_trial(fresh: Path) -> None:
    later = time.time() + 1000
    sweep, records = make_sweep("later"), [replace(r, ended=later) for r in make_records()]
    mirror = make_mirror(fresh, sweep, records)
    mirror.connect()
    mirror.end(ending_of(records, sweep))
    assert runs_of(fresh, "later")[""].info.end_time == int(1000 * later)


def test_the_data_are_an_entity_of_mlflows(fresh: Path) -> None:
    sweep, store = make_sweep("data"), SweepStore(str(fresh), "data")
    identity = Identity("d1" * 32, {"train": 1100, "validation": 300, "test": 397}, 10, {})
    store.create(sweep, identity_files(identity))
    Mirror(Plan(sweep), store).connect()
    (parent,) = runs_of(fresh, "data").values()
    (given,) = parent.inputs.dataset_inputs
    assert (given.dataset.name, given.dataset.digest) == ("digits", "d1" * 18)
    assert json.loads(given.dataset.profile) == {**identity.samples, "classes": 10}
    assert json.loads(given.dataset.source) == {"name": "digits"}
    assert "It is not finished yet" in parent.data.tags["mlflow.note.content"]


def test_the_sweeps_own_run_tells_how_far_it_is_and_of_which_commit(
    fresh: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sweeps.tracking.mirror._SECONDS_BETWEEN_PROGRESS", 0.0)
    sweep, records = make_sweep("going"), make_records()
    store = make_store(fresh, sweep, records)
    store.folder.write("environment.json", b'{"python": "3", "commit": "abc123-dirty"}')
    mirror = Mirror(Plan(sweep), store)
    notes = []
    for record in (records[5], *records[:2]):
        mirror.show(record)
        notes.append(runs_of(fresh, "going")[""].data.tags["mlflow.note.content"])
    assert "1 trial ended so far; none within the guard has finished." in notes[0]
    assert "**Best so far: cross\\_entropy**, val\\_ece 0.0500." in notes[1]
    assert "3 trials ended so far. **Best so far: focal γ=0.3333**, val\\_ece 0.0100." in notes[2]
    assert notes[2].endswith("Why: 0.0400 below cross\\_entropy; error +0.0000, guard 0.01.")
    tags = runs_of(fresh, "going")[""].data.tags
    assert tags["mlflow.source.git.commit"] == "abc123"
    last = records[-1]
    monkeypatch.setattr("sweeps.tracking.mirror._SECONDS_BETWEEN_PROGRESS", 3600.0)
    for record in (records[2], last):
        mirror.show(record)
    assert "4 trials ended" in runs_of(fresh, "going")[""].data.tags["mlflow.note.content"]


def test_the_recommended_run_has_the_only_star(fresh: Path) -> None:
    sweep, records = make_sweep("moving"), make_records()
    store = make_store(fresh, sweep, records)

    def starred(some: list[TrialRecord], verdict: Verdict) -> list[str]:
        found = compared(
            "focal",
            "cross_entropy + temperature scaling",
            "ece",
            -0.02,
            -0.03,
            -0.01,
            verdict,
            2,
            "test",
        )
        mirror = Mirror(Plan(sweep), store)
        for record in some:
            mirror.show(record)
        mirror.answer(ending_of(some, sweep, evidence=Evidence((found,))))
        names = {number: run.info.run_name for number, run in runs_of(fresh, "moving").items()}
        return sorted(number for number, name in names.items() if name.startswith("★"))

    assert starred(records[:3], "not supported") == ["0"]
    assert starred(records[:3], "supported") == ["1"]
    assert starred(records, "supported") == ["7"]
    assert runs_of(fresh, "moving")["1"].info.run_name == "focal γ=0.3333"


def test_a_run_whose_making_was_not_confirmed_is_not_made_again(
    fresh: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep, (record, *_) = make_sweep("lost"), make_records()
    mirror = make_mirror(fresh, sweep, [record])
    create = MlflowClient.create_run
    asked = []

    def lose_the_answer(client: MlflowClient, *arguments: Any, **options: Any) -> Any:
        run = create(client, *arguments, **options)
        asked.append(run)
        if len(asked) <= 2:
            raise ConnectionError("the response was lost")
        return run

    monkeypatch.setattr(MlflowClient, "create_run", lose_the_answer)
    with pytest.raises(ConnectionError):  # the run of the sweep
        write_whole(mirror, record)
    with pytest.raises(NotTakenError, match="the response was lost"):
        write_whole(mirror, record)
    write_whole(mirror, record)
    assert len(asked) == 2
    assert runs_of(fresh, "lost").keys() == {"", "0"}  # checks that no run exists twice
    assert runs_of(fresh, "lost")["0"].info.status == "FINISHED"


def test_of_two_runs_of_a_trial_the_empty_one_is_passed_over(fresh: Path) -> None:
    sweep, (record, *_) = make_sweep("twice"), make_records()
    store = make_store(fresh, sweep, [record])
    Mirror(Plan(sweep), store).show(record)
    client, runs = client_of(fresh), runs_of(fresh, "twice")
    tags = run_tags(Plan(sweep), store.sweep_id(), record, runs[""].info.run_id)
    for start in (1, 2 * int(1000 * record.started)):  # listed before the other run, and after it
        client.create_run(runs["0"].info.experiment_id, start_time=start, tags=tags)
    write_whole(Mirror(Plan(sweep), store), record)
    assert client.get_run(runs["0"].info.run_id).info.status == "FINISHED"


@pytest.mark.parametrize(
    ("label", "folder"),
    [("/data/birds#1", "data-birds-1"), ("what?", "what"), ("50%", "50"), ("..", "experiment")],
)
def test_any_experiment_has_a_folder_for_each_trial(fresh: Path, label: str, folder: str) -> None:
    sweep, records = make_sweep("odd", tracking={"experiment": label}), make_records()[:2]
    mirror = make_mirror(fresh, sweep, records)
    for record in records:
        write_whole(mirror, record)
    runs, client = runs_of(fresh, "odd"), client_of(fresh)
    assert client.get_experiment(runs[""].info.experiment_id).name == label
    for record in records:
        run = runs[str(record.number)].info.run_id
        assert (fresh / "artifacts" / folder / run / "artifacts" / "checkpoint.pt").is_file()
        path = client.download_artifacts(run, "reliability.svg")
        assert record.label.partition(" ")[0] in Path(path).read_text()


@pytest.mark.parametrize("name", ["b" * 250, "鸟" * 83, "b" * 249 + "é"])
def test_data_in_a_folder_with_a_long_name_reach_mlflow(fresh: Path, name: str) -> None:
    label, digest = f"image_folder:{name}", "d1" * 8
    records = make_records()[:2]
    for number in (1, 2):
        sweep = make_sweep(f"s{number}", dataset={"name": "image_folder", "root": f"/data/{name}"})
        assert sweep.dataset.label == label
        mirror = make_mirror(fresh, sweep, records, digest)
        for record in records:
            write_whole(mirror, record)
    tracked = tracked_sweeps(tracking_uri(str(fresh)))
    assert sorted(each.name for each in tracked) == ["s1", "s2"]
    run = client_of(fresh).get_run(tracked[0].run_ids[0])
    assert len(client_of(fresh).list_artifacts(run.info.run_id)) == len(ARTIFACTS)
    assert (
        len({client_of(fresh).get_run(each.parent_id).info.experiment_id for each in tracked}) == 1
    )


def test_an_experiment_of_an_earlier_version_keeps_trials_apart(fresh: Path) -> None:
    client = client_of(fresh)
    client.create_experiment("birds#1", f"{fresh.as_uri()}/artifacts/birds#1")
    sweep, records = make_sweep("old", tracking={"experiment": "birds#1"}), make_records()[:2]
    mirror = make_mirror(fresh, sweep, records)
    for record in records:
        write_whole(mirror, record)
    runs = runs_of(fresh, "old")
    for record in records:
        path = client.download_artifacts(runs[str(record.number)].info.run_id, "reliability.svg")
        assert record.label.partition(" ")[0] in Path(path).read_text()


def test_a_long_history_is_written_whole(fresh: Path) -> None:
    sweep, (record, *_) = make_sweep("long"), make_records()
    record.history = [entry(epoch) for epoch in range(1, 301)]  # 2,400 values
    make_mirror(fresh, sweep, [record]).show(record)
    run = runs_of(fresh, "long")["0"].info.run_id
    assert len(client_of(fresh).get_metric_history(run, "val_ece")) == 300
    assert len(client_of(fresh).get_metric_history(run, "test_nll")) == 300


def test_a_hidden_folder_of_the_users_keeps_its_name(tmp_path: Path) -> None:
    files = RunFiles(tmp_path.as_uri(), "")
    files.write({".own/weights": "1", "top": "2"})
    assert files.names() == {".own", "top"}
    assert files.read(".own/weights") == b"1"
