"""The runs of a sweep stay in one MLflow: in another shell, and in a storage that was moved."""

import shutil
import sqlite3
from collections import OrderedDict
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

import pytest
from mlflow import MlflowClient
from mlflow.tracking._tracking_service import utils

from sweeps.errors import UserError
from sweeps.search.plan import Plan
from sweeps.service.running import resume_sweep
from sweeps.service.upkeep import sync_sweep
from sweeps.store.sweep_store import SweepStore
from sweeps.sweep_file.schema import SweepFile
from sweeps.tracking.address import tracking_uri
from sweeps.tracking.kept_address import address_files, follow_storage, tracking_uri_of
from sweeps.tracking.mirror import Mirror
from sweeps.tracking.reader import read_sweep_file, tracked_sweeps
from tests.builders import new_store
from tests.harness.tracked import (
    client_of,
    ending_of,
    keep_answer,
    make_records,
    make_store,
    make_sweep,
    runs_of,
    write_whole,
)

SERVER = "http://127.0.0.1:9"


def begun(storage: Path, sweep: SweepFile) -> SweepStore:
    """A sweep that was begun in the present environment."""
    uri = tracking_uri(str(storage), sweep.tracking.uri)
    return new_store(storage, sweep, files=address_files(uri, str(storage)))


def test_another_shell_writes_to_the_same_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://me:secret@127.0.0.1:9/")
    sweep = make_sweep("kept")
    store = begun(tmp_path, sweep)
    assert b"secret" not in store.folder.read("mlflow.json")
    assert tracking_uri_of(store, sweep.tracking.uri) == "http://me:secret@127.0.0.1:9/"
    monkeypatch.delenv("MLFLOW_TRACKING_URI")
    assert tracking_uri_of(store, sweep.tracking.uri) == f"{SERVER}/"
    for command in (sync_sweep, partial(resume_sweep, debug=True)):  # without Ray
        with pytest.raises(UserError, match=rf"'{SERVER}/' does not answer"):
            command("kept", str(tmp_path))
    assert not (tmp_path / "mlflow.db").exists()


@pytest.mark.parametrize("first", [SERVER, None, "postgresql://me:secret@host/runs"])
def test_another_address_is_refused_and_both_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: str | None
) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    if first is not None:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", first)
    store = begun(tmp_path, make_sweep("kept"))
    shown = (first or f"sqlite:///{tmp_path}/mlflow.db").replace("me:secret@", "")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://me:secret@other:5000")
    for command in (sync_sweep, partial(resume_sweep, debug=True)):  # without Ray
        with pytest.raises(UserError) as refused:
            command("kept", str(tmp_path))
        named = "MLFLOW_TRACKING_URI = 'http://other:5000': the runs of sweep 'kept' are at"
        assert f"{named} '{shown}'" in str(refused.value)
    store.folder.delete("mlflow.json")
    assert tracking_uri_of(store, None) == "http://me:secret@other:5000"


def test_a_database_whose_password_is_not_stored_has_to_be_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "postgresql://me:secret@host/runs")
    sweep = make_sweep("kept")
    store = begun(tmp_path, sweep)
    monkeypatch.delenv("MLFLOW_TRACKING_URI")
    with pytest.raises(UserError, match=r"missing: .*'postgresql://host/runs', and credentials"):
        tracking_uri_of(store, sweep.tracking.uri)


def test_the_sweep_file_decides_before_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://other:5000")
    sweep = make_sweep("kept", tracking={"uri": SERVER})
    assert tracking_uri_of(begun(tmp_path, sweep), sweep.tracking.uri) == SERVER


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize(
    "given",
    ["sqlite:///runs.db", "sqlite:////data/a%20b.db", "sqlite:///a b.db", "sqlite:///a%20b.db"],
)
def test_a_sqlite_file_is_the_same_in_every_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own: bool, given: str
) -> None:
    for folder in ("here", "elsewhere"):
        (tmp_path / folder).mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    if not own:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", given)
    sweep = make_sweep("kept", tracking={"uri": given} if own else {})
    store = begun(tmp_path / "store", sweep)
    expected = given if ":////" in given else f"sqlite:///{tmp_path}/here/{given[10:]}"
    assert tracking_uri_of(store, sweep.tracking.uri) == expected
    for folder in ("here", "elsewhere"):
        monkeypatch.chdir(tmp_path / folder)
        monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
        assert tracking_uri_of(store, sweep.tracking.uri) == expected
    if not own and ":////" not in given:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", given)  # in another folder, it is another file
        with pytest.raises(UserError, match="the runs of sweep 'kept' are at"):
            tracking_uri_of(store, None)


@pytest.mark.parametrize(("own", "copied"), [(False, False), (True, True)])
def test_a_moved_storage_takes_its_runs_along(
    fresh: Path, monkeypatch: pytest.MonkeyPatch, own: bool, copied: bool
) -> None:
    """Also if the sweep file names the database in the storage."""
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    before = f"sqlite:///{fresh}/mlflow.db"
    sweep = make_sweep("moved", tracking={"uri": before} if own else {})
    records = make_records()[:1]
    store = make_store(fresh, sweep, records)
    for name, data in address_files(before, str(fresh)).items():
        store.folder.write(name, data)
    assert sync_sweep("moved", str(fresh)).trials == 1
    client = client_of(fresh)
    (experiment,) = client.search_experiments(filter_string="tags.calsweep = '1'")
    (run,) = client.search_runs([experiment.experiment_id], "tags.role = 'baseline'")
    client.create_registered_model("calsweep-digits")
    source = f"{run.info.artifact_uri}/champion"
    client.create_model_version("calsweep-digits", source, run.info.run_id)
    there = fresh.parent / "new place"
    (shutil.copytree if copied else shutil.move)(fresh, there)
    files = set(fresh.rglob("*")) if copied else set()
    keep_answer(SweepStore(str(there), "moved"), records, sweep)
    monkeypatch.setattr(utils, "_artifact_repos_cache", OrderedDict())  # as in a new process
    assert sync_sweep("moved", str(there)).trials == 1
    assert set(fresh.rglob("*")) == files  # nothing is written to the former place
    moved = MlflowClient(tracking_uri(str(there)))
    found = moved.search_runs([experiment.experiment_id])
    assert len(found) == 2
    for each in found:
        assert each.info.artifact_uri.startswith(f"{there.as_uri()}/artifacts/")
        assert (Path(url2pathname(urlsplit(each.info.artifact_uri).path)) / "sweep.yaml").exists()
    version = moved.get_model_version("calsweep-digits", "1")
    assert version.source.startswith(f"{there.as_uri()}/artifacts/")


def test_two_paths_of_one_storage_share_the_files_of_their_runs(
    fresh: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of a container and its host: at the other path, the stored one does not exist."""
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    sweep, other, records = make_sweep("running"), make_sweep("other"), make_records()[:3]
    store = make_store(fresh, sweep, records)
    make_store(fresh, other, records[:1])
    ending = ending_of(records, sweep, store)
    elsewhere = f"file://{fresh.parent}/elsewhere"

    def as_seen_from_elsewhere() -> None:
        with sqlite3.connect(fresh / "mlflow.db") as connection:
            for table, place in (("experiments", "artifact_location"), ("runs", "artifact_uri")):
                connection.execute(
                    f"UPDATE {table} SET {place} = replace({place}, ?, ?)",
                    (fresh.as_uri(), elsewhere),
                )

    mirror = Mirror(Plan(sweep), store)
    write_whole(mirror, records[0])
    as_seen_from_elsewhere()
    with store.locked():
        sync_sweep("other", str(fresh))
        uris = {run.info.artifact_uri for run in runs_of(fresh, "running").values()}
        assert all(uri.startswith(elsewhere) for uri in uris)  # it runs: nothing is rewritten
        for record in records[1:]:
            write_whole(mirror, record)
        mirror.answer(ending)
        mirror.end(ending)
        (tracked, _) = tracked_sweeps(tracking_uri(str(fresh)))
        assert "name: " in read_sweep_file(tracking_uri(str(fresh)), str(tracked.parent_id))
    assert not (fresh.parent / "elsewhere").exists()
    keep_answer(store, records, sweep)
    places = {
        n: fresh / "artifacts/digits" / r.info.run_id / "artifacts"
        for n, r in runs_of(fresh, "running").items()
    }
    before = {number: set(place.rglob("*")) for number, place in places.items()}
    assert all(before.values())
    shutil.rmtree(places["1"].parent)  # it was in a container that is gone
    shutil.rmtree(places[""].parent)
    assert sync_sweep("running", str(fresh)).trials == 3
    assert {number: set(place.rglob("*")) for number, place in places.items()} == before
    uris = {run.info.artifact_uri for run in runs_of(fresh, "running").values()}
    assert all(uri.startswith(fresh.as_uri()) for uri in uris)


def test_places_of_others_stay(fresh: Path) -> None:
    client = client_of(fresh)
    (elsewhere := fresh.parent / "theirs" / "artifacts" / "mine").mkdir(parents=True)
    places = {
        "theirs": elsewhere.as_uri(),
        "bucket": "s3://bucket/artifacts/mine",
        "other": f"{fresh.parent.as_uri()}/gone/files/mine",
    }
    for name, place in places.items():
        client.create_experiment(name, place)
    assert follow_storage(tracking_uri(str(fresh)), str(fresh))
    experiments = client_of(fresh)
    assert {n: experiments.get_experiment_by_name(n).artifact_location for n in places} == places


def test_a_file_that_is_no_database_is_left_to_mlflow(tmp_path: Path) -> None:
    from sweeps.tracking.mlflow_internals import follow_move

    def is_in_use() -> bool:
        return False

    for content in (b"no database", b""):
        (tmp_path / "mlflow.db").write_bytes(content)
        follow_move(tmp_path / "mlflow.db", is_in_use)
        assert (tmp_path / "mlflow.db").read_bytes() == content
    with sqlite3.connect(tmp_path / "mlflow.db") as connection:  # of a future MLflow
        connection.execute("CREATE TABLE experiments (artifact_location TEXT)")
        connection.execute("INSERT INTO experiments VALUES ('file:///gone/artifacts/x')")
    follow_move(tmp_path / "mlflow.db", is_in_use)
    with sqlite3.connect(tmp_path / "mlflow.db") as connection:
        ((place,),) = connection.execute("SELECT * FROM experiments").fetchall()
    assert place == f"{tmp_path.as_uri()}/artifacts/x"
