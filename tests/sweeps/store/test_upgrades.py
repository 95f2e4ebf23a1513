"""Stores that earlier versions wrote: every command reads them, and an interrupted sweep resumes.

``tests/stores`` has a store of each format, with a finished sweep, ``done``, and one that was
interrupted in its first trial of the focal loss, ``cut``. calsweep aca705c wrote format 1.
"""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from rich.console import Console

from calsweep import load
from sweeps.errors import UserError
from sweeps.service.delivery.exporting import export_model
from sweeps.service.delivery.registering import promote
from sweeps.service.reading.finding import (
    find_best,
    look_at,
    overviews,
    read_answer,
    read_state,
    side_by_side,
)
from sweeps.service.reading.writing import values_in_table, write_report
from sweeps.service.running import resume_sweep
from sweeps.service.upkeep import sync_sweep
from sweeps.store.first_files import read_given
from sweeps.store.sweep_store import SweepStore
from sweeps.sweep_file.loading import override_sweep
from sweeps.sweep_file.upgrading import FORMAT, KEYS, with_present_keys
from tests.harness.tracked import runs_of

STORES = Path(__file__).parents[2] / "stores"
FORMATS = sorted(each.name for each in STORES.iterdir())


@pytest.fixture(params=FORMATS)
def storage(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A copy of a store, in the working folder of its sweeps."""
    shutil.copytree(STORES / request.param, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return str(tmp_path)


def test_there_is_a_store_of_each_earlier_format() -> None:
    assert [f"format_{number}" for number in range(1, FORMAT)] == FORMATS


def test_readers_open_it(storage: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert [each.name for each in overviews(storage)] == ["cut", "done"]
    for name, state in (("cut", "stopped"), ("done", "finished")):
        assert read_state(name, storage) == look_at(name, storage).overview.state == state
        sweep, found, final = read_answer(name, storage)
        assert (final, found.dataset) == (state == "finished", "csv:train")
        assert sweep.plan.sweep.scaling_method.criterion == "nll_unpenalised"
    assert found.recommended is not None and found.evidence.comparisons
    assert [entry.sweep for entry in find_best(storage).entries] == ["done"]
    assert values_in_table(["done"], storage, "ece")
    assert len(side_by_side(["done", "cut"], storage)) == 2
    assert load(storage, "done").best is not None


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_its_networks_are_handed_out_and_its_runs_reach_mlflow(storage: str) -> None:
    assert "<svg" in Path(write_report("done", storage)).read_text()
    assert (Path(export_model("done", storage)[0]) / "model.json").exists()
    assert sync_sweep("done", storage).trials == 6
    assert "champion" in promote("done", storage)


@pytest.mark.slow
def test_an_interrupted_sweep_resumes_in_the_middle_of_a_trial(storage: str) -> None:
    store = SweepStore(storage, "cut")
    (before,) = (record.runs for record in store.load_records() if record.number == 2)
    assert store.epochs_done(2) == 1
    done = resume_sweep("cut", storage, debug=True, console=Console(quiet=True))
    assert [(r.state, r.epochs) for r in done.records] == [("finished", 6)] * len(done.records)
    first, second = done.records[2].history[:2]
    assert first["timestamp"] < before[-1][-1] + 60 < second["timestamp"]  # not trained again
    assert store.folder.read("format") == str(FORMAT).encode()
    assert not KEYS.keys() & set(_keys(store))
    assert len(runs_of(Path(storage), "cut")) == len(done.records) + 1


def _keys(store: SweepStore) -> list[str]:
    tree = yaml.safe_load(store.folder.read("sweep.yaml"))
    sections = {name: values for name, values in tree.items() if isinstance(values, dict)}
    return [f"{section}.{key}" for section, values in sections.items() for key in values]


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda text: text.replace("guard:", "guart:"), "unknown key 'guart' in search"),
        (lambda text: text.partition("tracking:")[0], "the sweep file is cut short"),
    ],
)
def test_what_cannot_be_read_names_the_version_that_wrote_it(
    storage: str, damage: Callable[[str], str], message: str
) -> None:
    store = SweepStore(storage, "done")
    text = store.folder.read("sweep.yaml").decode()
    store.folder.write("sweep.yaml", damage(text).encode())
    written = r"sweep 'done' in .* was written by calsweep 0\.1\.0 \(format"
    with pytest.raises(UserError, match=rf"(?s){message}.*{written}"):
        store.load_sweep()
    store.folder.write("format", b"99")
    with pytest.raises(
        UserError, match=rf"{written} 99\); .* reads formats up to {FORMAT}: update"
    ):
        store.load_sweep()


def test_a_retired_key_of_a_users_file_is_explained(storage: str) -> None:
    retired = [key for key, name in KEYS.items() if name is None]
    tree = {"name": "a", "dataset": {"name": "digits"}, "losses": ["focal"]}
    for key in retired:
        with pytest.raises(UserError, match=f"{key} no longer exists: leave it out"):
            override_sweep(dict(tree), {key: False})
    store = SweepStore(storage, "done")
    store.folder.write(
        "given.json", json.dumps({**tree, "search": {"stop_at_noise": True}}).encode()
    )
    given = read_given(store.folder)
    assert given is not None and given.search.trials


def test_a_renamed_key_keeps_its_value(monkeypatch: pytest.MonkeyPatch) -> None:
    names = {"search.stop": None, "search.old": "selection.new", "name.none": None}
    monkeypatch.setattr("sweeps.sweep_file.upgrading.KEYS", names)
    tree = {"name": "a", "search": {"old": 3, "stop": 1, "seed": 0}, "selection": {}}
    found = {"name": "a", "search": {"seed": 0}, "selection": {"new": 3}}
    assert with_present_keys(tree) == found
    assert tree["search"] == {"old": 3, "stop": 1, "seed": 0}
