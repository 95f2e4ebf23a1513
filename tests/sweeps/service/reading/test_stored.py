"""The sweeps in a storage agree with MLflow."""

import json
from pathlib import Path

import pytest

from sweeps.errors import UserError
from sweeps.results.best import best_settings
from sweeps.service.reading.finding import find_best, overviews
from sweeps.service.reading.stored import stored_sweeps
from sweeps.store.sweep_store import SweepStore
from sweeps.tracking.address import tracking_uri
from sweeps.tracking.reader import tracked_sweeps
from tests.builders import baseline, new_store, trial
from tests.harness.tracked import (
    ending_of,
    make_mirror,
    make_records,
    make_store,
    make_sweep,
    write_whole,
)


def test_the_store_and_mlflow_have_the_same_best(tmp_path: Path) -> None:
    records = make_records()
    for name, digest in (("kept", "aaaaaaaaaa"), ("old", None)):
        sweep = make_sweep(name, model={"name": "small_cnn", "width": 8})
        mirror = make_mirror(tmp_path, sweep, records, digest)
        for record in records:
            write_whole(mirror, record)
        mirror.answer(ending_of(records, sweep))
        mirror.end(ending_of(records, sweep))
        answer = ending_of(records, sweep).result.to_json()
        SweepStore(str(tmp_path), name).save_answer(answer)
    here = best_settings(stored_sweeps(str(tmp_path)))
    there = best_settings(tracked_sweeps(tracking_uri(str(tmp_path))))
    assert {entry.sweep for entry in here} == {"kept", "old"}
    assert here == there


def test_mlflow_is_asked_where_others_write_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "team"
    uri = tracking_uri(str(elsewhere))
    sweep = make_sweep("theirs", tracking={"uri": uri})
    mirror = make_mirror(elsewhere, sweep, make_records())
    for record in make_records():
        write_whole(mirror, record)
    make_store(tmp_path, make_sweep("mine"), make_records())
    assert [e.sweep for e in find_best(str(tmp_path)).entries] == ["mine"]
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    found = find_best(str(tmp_path))
    assert [e.sweep for e in found.entries] == ["theirs"]
    assert "name: theirs" in found.read_sweep_file(found.entries[0])


def test_a_damaged_sweep_is_reported_and_the_others_are_shown(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    records = [baseline(), trial(1, val_ece=0.01)]
    for name in ("whole", "broken", "unknown"):
        new_store(tmp_path, make_sweep(name), records)
    (tmp_path / "sweeps/broken/sweep.yaml").write_text("name: [")
    (tmp_path / "sweeps/unknown/identity.json").write_text("{")
    assert {each.name for each in overviews(str(tmp_path))} == {"whole", "unknown"}
    assert "broken" in caplog.text
    found = best_settings(stored_sweeps(str(tmp_path)))
    assert {entry.sweep for entry in found} == {"whole", "unknown"}


def test_what_mlflow_calls_the_runs_is_not_needed(tmp_path: Path) -> None:
    store = new_store(tmp_path, make_sweep("alone"), [baseline(), trial(1, val_ece=0.01)])
    assert store.load_run_ids() == (None, {})
    store.folder.write("mlflow_runs.json", b'{"parent"')
    (entry,) = find_best(str(tmp_path)).entries
    assert (entry.run_id, entry.parent_run_id, entry.trial) == (None, None, 1)
    assert json.dumps(entry.to_json())
    there = "dataset=digits model=small_cnn objective=val_ece"
    with pytest.raises(UserError, match=f"no finished sweep of dataset=cifar10; it has {there}"):
        find_best(str(tmp_path), dataset="cifar10")
