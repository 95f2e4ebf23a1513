"""Reading sweeps from a real MLflow."""

import json
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from sweeps.errors import UserError
from sweeps.results.best import as_sweep_file, best_settings
from sweeps.search.plan import Plan
from sweeps.search.ranking import Ranking
from sweeps.search.record import TrialRecord
from sweeps.search.rules import rule_of
from sweeps.store.identity import Identity, identity_files
from sweeps.store.sweep_store import SweepStore
from sweeps.sweep_file.loading import parse_sweep
from sweeps.terminal.answers import render_best
from sweeps.tracking.address import tracking_uri
from sweeps.tracking.mirror import Mirror
from sweeps.tracking.reader import read_sweep_file, tracked_sweeps
from sweeps.tracking.sqlite import make_database
from tests.harness.tracked import (
    client_of,
    make_mirror,
    make_records,
    make_store,
    make_sweep,
    runs_of,
    write_whole,
)


def test_two_sweeps_of_one_name_are_kept_apart(
    storage: Path, written: list[TrialRecord], tmp_path: Path
) -> None:
    uri = tracking_uri(str(storage))
    sweep = make_sweep("whole", tracking={"uri": uri}, model={"name": "resnet18_cifar"})
    record = replace(make_records()[0], history=[])
    write_whole(Mirror(Plan(sweep), make_store(tmp_path, sweep, [record])), record)
    found = [s for s in tracked_sweeps(uri) if s.name == "whole"]
    assert sorted(len(s.records) for s in found) == [1, len(written)]
    assert len({s.parent_id for s in found}) == 2
    (other,) = tracked_sweeps(uri, model="resnet18_cifar")
    assert len(other.records) == 1
    assert tracked_sweeps(uri, dataset="cifar10") == []


def test_the_answer_from_mlflow_is_the_one_from_the_records(
    storage: Path, written: list[TrialRecord]
) -> None:
    uri, sweep = tracking_uri(str(storage)), make_sweep("whole")
    (tracked,) = [s for s in tracked_sweeps(uri, model="small_cnn") if s.name == "whole"]
    assert [(r.number, r.role, r.setting, r.seed, r.state, r.reason) for r in tracked.records] == [
        (r.number, r.role, r.setting, r.seed, r.state, r.reason) for r in written
    ]
    chosen = Ranking(written, rule_of(sweep)).chosen
    assert chosen is not None and chosen.trials[0].number == 2
    (advised,) = best_settings([tracked])
    assert (advised.loss, advised.best.loss) == ("cross_entropy", "focal")
    assert advised.recommended == "cross-entropy with a temperature"
    (found,) = best_settings([replace(tracked, recommended=None)])
    assert found.loss == "focal"
    assert found.hyperparameters == {"gamma": 0.1 + 0.2}
    assert found.seeds == 1
    assert found.val["ece"] == chosen.objective == 0.03
    assert found.temperature == 1.3
    # The ends of intervals are in an artifact of the run.
    assert (found.val["ece_low"], found.val["ece_high"]) == (0.01, 0.05)
    assert found.run_id == runs_of(storage, "whole")["2"].info.run_id
    resolved = YAML(typ="safe").load(read_sweep_file(uri, str(found.parent_run_id)))
    alone = parse_sweep(as_sweep_file(found.setting, resolved))
    assert alone.training == sweep.training
    json.dumps(found.to_json(), allow_nan=False)


def test_a_sweep_file_is_written_of_one_answer_only(
    storage: Path, written: list[TrialRecord], capsys: pytest.CaptureFixture[str]
) -> None:
    uri = tracking_uri(str(storage))
    (tracked,) = [s for s in tracked_sweeps(uri, model="small_cnn") if s.name == "whole"]
    entries = best_settings([tracked, replace(tracked, dataset="cifar10", data="other")])
    with pytest.raises(UserError) as caught:
        render_best(entries, "yaml", lambda entry: read_sweep_file(uri, entry.parent_run_id))
    assert str(caught.value).splitlines()[1:] == [
        "  dataset cifar10, model small_cnn",
        "  dataset digits, model small_cnn",
    ]
    assert "--format yaml: it is one sweep file, and there are 2 answers" in caught.value.in_shell
    render_best(entries[1:], "yaml", lambda entry: read_sweep_file(uri, entry.parent_run_id))
    printed = YAML(typ="safe").load(capsys.readouterr().out)
    assert parse_sweep(printed).losses[0].name == "cross_entropy"  # what is recommended


def test_a_database_that_mlflow_refuses_is_reported_in_one_message(tmp_path: Path) -> None:
    path = tmp_path / "mlflow.db"
    make_database(f"sqlite:///{path}")
    with sqlite3.connect(path) as connection:
        connection.execute("DELETE FROM alembic_version")  # like an interrupted migration
    with pytest.raises(UserError, match=r"tracking\.uri = 'sqlite:"):
        tracked_sweeps(f"sqlite:///{path}")


@pytest.mark.parametrize("name", ["it's", 'say "so"', "both ' and \"", "50% of \\it", "`tick`"])
def test_any_name_of_a_model_is_found(fresh: Path, name: str) -> None:
    for number, model in enumerate((name, "small_cnn")):
        sweep = make_sweep(f"named{number}", model={"name": model})
        record = make_records()[0]
        write_whole(make_mirror(fresh, sweep, [record]), record)
    (found,) = tracked_sweeps(tracking_uri(str(fresh)), model=name)
    assert (found.name, found.model) == ("named0", name)


def test_sweeps_are_reported_apart_by_data_and_options(fresh: Path) -> None:
    first, *_ = make_records()
    wide = {"name": "small_cnn", "width": 64}
    for name, digest, model in (
        ("one", "aaaaaaaaaaaa", "small_cnn"),
        ("same", "aaaaaaaaaaaa", "small_cnn"),
        ("split", "bbbbbbbbbbbb", "small_cnn"),
        ("wide", "aaaaaaaaaaaa", wide),
    ):
        write_whole(make_mirror(fresh, make_sweep(name, model=model), [first], digest), first)
    uri, client = tracking_uri(str(fresh)), client_of(fresh)
    names = {e.experiment_id: e.name for e in client.search_experiments()}
    assert set(names.values()) == {"Default", "digits-aaaaaa", "digits-bbbbbb"}

    def found(**wanted: str) -> list[str]:
        return sorted(sweep.name for sweep in tracked_sweeps(uri, **wanted))

    assert found(dataset="digits") == ["one", "same", "split", "wide"]
    assert found(dataset="digits-bbbbbb") == ["split"]
    assert found(model="small_cnn,width=64") == ["wide"]
    assert found(model="small_cnn") == ["one", "same", "split"]
    assert len(best_settings(tracked_sweeps(uri))) == 3


def test_sweeps_without_a_digest_are_not_compared_with_others(fresh: Path) -> None:
    first, *_ = make_records()
    for name in ("one", "same"):
        write_whole(make_mirror(fresh, make_sweep(name), [first]), first)
    assert len(best_settings(tracked_sweeps(tracking_uri(str(fresh))))) == 2


def test_a_sweep_from_before_that_continues_stays_in_its_experiment(fresh: Path) -> None:
    sweep, (first, second, *_) = make_sweep("old"), make_records()
    write_whole(make_mirror(fresh, sweep, [first]), first)
    store = SweepStore(str(fresh), "old")
    for name, data in identity_files(Identity("aaaaaaaaaaaa", {}, 10, {})).items():
        store.folder.write(name, data)
    again = Mirror(Plan(sweep), store)
    write_whole(again, first)
    write_whole(again, second)
    runs = runs_of(fresh, "old")
    assert sorted(runs) == ["", "0", "1"]
    (tracked,) = tracked_sweeps(tracking_uri(str(fresh)))
    assert tracked.data == "aaaaaaaaaaaa"
