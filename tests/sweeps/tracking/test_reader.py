"""What is read back from a real MLflow."""

import json
import sqlite3
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from sweeps.errors import UserError
from sweeps.results.best import as_sweep_file, best_settings
from sweeps.search.ranking import Ranking
from sweeps.search.record import TrialRecord
from sweeps.store.sweep_store import SweepStore
from sweeps.sweep_file.loading import parse_sweep
from sweeps.terminal.answers import render_best
from sweeps.tracking import reader
from sweeps.tracking.address import make_database, tracking_uri
from sweeps.tracking.mirror import Mirror
from sweeps.tracking.reader import read_sweep_file, tracked_sweeps
from tests.harness.tracked import (
    ENVIRONMENT,
    entry,
    make_mirror,
    make_records,
    make_store,
    make_sweep,
    runs_of,
)


def test_two_sweeps_of_one_name_are_kept_apart(
    storage: Path, written: list[TrialRecord], tmp_path: Path
) -> None:
    uri = tracking_uri(str(storage))
    sweep = make_sweep("whole", tracking={"uri": uri}, model={"name": "resnet18_cifar"})
    record = replace(make_records()[0], history=[])
    Mirror(sweep, make_store(tmp_path, sweep, [record]), ENVIRONMENT).sync(record)
    found = [s for s in tracked_sweeps(uri) if s.name == "whole"]
    assert sorted(len(s.records) for s in found) == [1, len(written) - 2]
    assert len({s.parent_id for s in found}) == 2
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
    mirror = Mirror(sweep, store, ENVIRONMENT)
    for record in records:
        mirror.sync(record)
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
    # Of the search's own, those that did not finish can neither be chosen nor judge another.
    assert [(r.number, r.role, r.setting, r.seed, r.state, r.reason) for r in tracked.records] == [
        (r.number, r.role, r.setting, r.seed, r.state, r.reason)
        for r in written
        if r.role != "search" or r.state == "finished"
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


def test_a_sweep_file_is_written_of_one_answer_only(
    storage: Path, written: list[TrialRecord], capsys: pytest.CaptureFixture[str]
) -> None:
    uri = tracking_uri(str(storage))
    (tracked,) = [s for s in tracked_sweeps(uri, model="small_cnn") if s.name == "whole"]
    entries = best_settings([tracked, replace(tracked, dataset="cifar10")])
    with pytest.raises(UserError) as caught:
        render_best(entries, "yaml", partial(read_sweep_file, uri))
    assert str(caught.value).splitlines()[1:] == [
        "  --dataset cifar10 --model small_cnn",
        "  --dataset digits --model small_cnn",
    ]
    assert "--format yaml writes one sweep file, and there are 2 answers" in str(caught.value)
    render_best(entries[1:], "yaml", partial(read_sweep_file, uri))
    printed = YAML(typ="safe").load(capsys.readouterr().out)
    assert parse_sweep(printed).losses[0].name == "focal"


def test_a_database_that_mlflow_refuses_is_told_in_one_message(tmp_path: Path) -> None:
    path = tmp_path / "mlflow.db"
    make_database(f"sqlite:///{path}")
    with sqlite3.connect(path) as connection:
        connection.execute("DELETE FROM alembic_version")  # as if cut off in its migrations
    with pytest.raises(UserError, match=r"tracking\.uri = 'sqlite:"):
        tracked_sweeps(f"sqlite:///{path}")


@pytest.mark.parametrize("name", ["it's", 'say "so"', "both ' and \"", "50% of \\it", "`tick`"])
def test_any_name_of_a_model_is_found(fresh: Path, name: str) -> None:
    for number, model in enumerate((name, "small_cnn")):
        sweep = make_sweep(f"named{number}", model={"name": model})
        record = make_records()[0]
        make_mirror(fresh, sweep, [record]).sync(record)
    (found,) = tracked_sweeps(tracking_uri(str(fresh)), model=name)
    assert (found.name, found.model) == ("named0", name)


def test_a_role_that_is_not_known_yet_is_read(fresh: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "_RUNS_PER_PAGE", 3)
    sweep, (first, *_) = make_sweep("roles"), make_records()
    searched = [
        replace(first, number=n, role="search", loss="focal", hyperparameters={"gamma": float(n)})
        for n in range(1, 9)
    ]
    # Sorted by role, it would come after the search's own, which decide before it is read.
    role: Any = "seeded"
    late = replace(searched[0], number=9, role=role, hyperparameters={"gamma": 9.0})
    late.history = [{**late.outcome, "val_ece": 0.001}]
    records = [first, *searched, late]
    mirror = make_mirror(fresh, sweep, records)
    for record in records:
        mirror.sync(record)
    (tracked,) = tracked_sweeps(tracking_uri(str(fresh)))
    assert 9 in {record.number for record in tracked.records}
    assert len(tracked.records) < len(records)
    assert best_settings([tracked])[0]["hyperparameters"] == {"gamma": 9.0}
