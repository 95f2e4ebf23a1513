"""JSON for other programs, the journal, and deleting what is old."""

import json
import os
import re
import time
from pathlib import Path
from typing import Any

import pytest
from mlflow.entities import ViewType
from typer.testing import CliRunner

from sweeps.cli import app
from sweeps.errors import UserError
from sweeps.jobs import jobs
from sweeps.messages.documents import FORMAT
from sweeps.search.plan import Plan
from sweeps.store.journal import note, owner_of, read_journal
from sweeps.store.storage import sweep_names
from sweeps.store.sweep_store import SweepStore
from sweeps.sweep_file.loading import load_sweep
from sweeps.tracking.address import tracking_uri
from sweeps.tracking.mirror import Mirror
from sweeps.tracking.sqlite import make_database
from tests.builders import baseline, new_store, trial
from tests.harness.tracked import (
    client_of,
    keep_answer,
    make_records,
    make_store,
    make_sweep,
    mirrored,
    runs_of,
)

PAGE = Path(__file__).parents[3] / "docs/json.md"


def printed(*arguments: str) -> str:
    """What a command prints, in this process."""
    done = CliRunner().invoke(app, arguments)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.stdout


def document(*arguments: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(printed(*arguments, "--format", "json"))
    assert (found.pop("calsweep"), found.pop("format")) == (arguments[0], FORMAT)
    return found


@pytest.fixture
def storage(tmp_path: Path) -> str:
    """A finished sweep, one that was stopped, and one without trials."""
    sweep, records = make_sweep("done"), make_records()
    records[0].runs = [[0.0, 3600.0]]
    records[1].runs = [[0.0, 1800.0], [2000.0, 3800.0]]
    store = make_store(tmp_path, sweep, records)
    keep_answer(store, records, sweep)
    note(store.folder, "started", "ann@host")
    note(store.folder, "dropped", "bob@other", [3, 4])
    cut = make_sweep("cut", scaling={"cpus_per_worker": 2, "gpus_per_worker": 0.5})
    began = trial(0, state="stopped", ended=2.0)
    began.runs = [[0.0, 3600.0]]
    killed = trial(1, state="running", history=[], started=1.0)
    killed.runs = [[3600.0]]
    new_store(tmp_path, cut, [began, killed])
    new_store(tmp_path, make_sweep("empty"))
    return str(tmp_path)


def test_every_document_has_the_keys_that_are_documented(
    storage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = jobs.Job("birds-1", "birds", "s3://K:HUSH@b/x", "run", "RUNNING", "", 1.0, None)
    monkeypatch.setattr(jobs, "list_jobs", lambda address: [job])
    monkeypatch.setattr(jobs, "said_by", lambda *_: jobs.Said("3/5 trials", "", ""))
    file = tmp_path / "sweep.yaml"
    file.write_text("name: a\ndataset: digits\nmodel: small_cnn\nlosses: [focal]\n")
    at = ("--storage", storage)
    found = {
        "list": document("list", *at),
        "status": document("status", "birds-1", "--address", "http://127.0.0.1:9"),
        "show": document("show", "done", *at),
        "best": document("best", *at),
        "check": document("check", str(file), "--no-data", *at),
    }
    assert "HUSH" not in str(found)
    documented = set(re.findall("`([a-z_]+)`", PAGE.read_text()))
    for tree in found.values():
        assert tree.keys() <= documented
    (listed, *_) = found["list"]["sweeps"]
    (state,) = found["status"]["jobs"]
    shown, (best,), plan = found["show"], found["best"]["best"], found["check"]["plan"]
    for part in (listed, state, shown["trials"][0], shown["journal"][0], best, plan):
        assert part.keys() <= documented, part.keys() - documented
    assert {"recommended", "chosen", "verdict", "rows", "warnings"} <= shown["result"].keys()
    assert (shown["state"], shown["final"], len(shown["trials"])) == ("finished", True, 8)
    assert shown["trials"][1]["metrics"]["val_ece"] == 0.01
    assert shown["journal"][1]["trials"] == [3, 4]
    assert plan["space"]["focal"]["gamma"].keys() == {"low", "high", "log", "choices"}
    assert (plan["settings"], plan["epochs"]) == (Plan(load_sweep(str(file))).settings, None)


def test_a_list_has_owner_cost_and_size(storage: str) -> None:
    sweeps = {each["name"]: each for each in document("list", "--storage", storage)["sweeps"]}
    assert sweeps.keys() == {"done", "cut", "empty"}
    assert (sweeps["done"]["owner"], sweeps["cut"]["owner"]) == ("ann@host", "")
    assert (sweeps["done"]["cpu_hours"], sweeps["done"]["gpu_hours"]) == (2.0, 0.0)
    cut = sweeps["cut"]
    assert (cut["cpu_hours"], cut["gpu_hours"], cut["last_active"]) == (2.0, 0.5, 3600.0)
    folder = Path(storage, "sweeps", "done")
    sizes = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    assert sweeps["done"]["bytes"] == sizes > 0
    assert sweeps["empty"]["last_active"] is None
    assert "ann" in printed("list", "--storage", storage)


def test_a_sweep_without_trials_has_a_state(storage: str) -> None:
    shown = document("show", "empty", "--storage", storage)
    assert (shown["state"], shown["result"], shown["trials"]) == ("stopped", None, [])


def test_a_damaged_entry_of_the_journal_is_left_out(tmp_path: Path) -> None:
    folder = new_store(tmp_path, make_sweep("a")).folder
    assert (owner_of(folder), read_journal(folder)) == ("", [])
    note(folder, "resumed", "bob@host")
    assert owner_of(folder) == ""
    (folder / "journal").write("0", b'{"act": 1')
    assert [entry.act for entry in read_journal(folder)] == ["resumed"]


def test_who_did_what_is_in_mlflow(tmp_path: Path) -> None:
    make_database(tracking_uri(str(tmp_path)))
    store = new_store(tmp_path, make_sweep("told"), [baseline()])
    note(store.folder, "started", "ann@host")
    mirror = Mirror(Plan(store.load_sweep()), store)
    mirror.connect()
    note(store.folder, "interrupted", "ann@host")
    mirror.suspend()
    tags = runs_of(tmp_path, "told")[""].data.tags
    assert tags["mlflow.user"] == "ann"
    acts = [line.partition(": ")[2] for line in tags["calsweep.journal"].splitlines()]
    assert acts == ["started by ann@host", "interrupted by ann@host"]


def test_old_sweeps_are_deleted_with_their_runs_but_the_best_stay(tmp_path: Path) -> None:
    make_database(tracking_uri(str(tmp_path)))
    records = make_records()[:2]
    for name in ("best", "worse", "registered", "young"):
        ended = time.time() if name == "young" else 1e9
        for record in records:
            record.ended = ended
            record.history[-1]["val_ece"] = 0.001 if name == "best" else 0.2
        store = make_store(tmp_path, make_sweep(name), records, "d1" * 8)
        mirrored(store)
    client = client_of(tmp_path)
    own = {name: runs_of(tmp_path, name) for name in ("worse", "registered")}
    client.create_registered_model("m")
    kept = own["registered"][""].info.run_id
    client.create_model_version("m", f"runs:/{kept}/model", kept)
    at = ("--storage", str(tmp_path))
    assert printed("delete", "--older-than", "9999w", "--yes", *at).startswith("no sweep in")
    said = printed("delete", "--older-than", "30d", "--keep-best", "--runs", "--yes", *at)
    assert said.splitlines() == [
        "deleted: sweep registered, with 0 runs in MLflow",
        "deleted: sweep worse, with 3 runs in MLflow",
    ]
    assert sweep_names(str(tmp_path)) == ["best", "young"]
    experiment = own["worse"][""].info.experiment_id
    left = {run.info.run_id for run in client.search_runs([experiment])}
    assert not left & {run.info.run_id for run in own["worse"].values()}
    assert kept in left
    gone = client.search_runs([experiment], run_view_type=ViewType.DELETED_ONLY)
    assert len(gone) == 3
    for run in gone:
        place = Path(run.info.artifact_uri.removeprefix("file://"))
        assert not place.exists() or not os.listdir(place)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "either the name of a sweep or --older-than"),
        (("a", "--older-than", "3d"), "either the name of a sweep or --older-than"),
        (("a", "--keep-best"), "--keep-best is allowed only with --older-than"),
        (("--older-than", "3 months"), "allowed: such as 12h, 30d or 8w"),
        (("a", "--runs", "--checkpoints"), "with --runs it is not allowed"),
    ],
)
def test_what_delete_refuses(tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    SweepStore(str(tmp_path), "a").create(make_sweep("a"))
    with pytest.raises(UserError, match=message):
        printed("delete", *arguments, "--yes", "--storage", str(tmp_path))
    assert sweep_names(str(tmp_path)) == ["a"]
