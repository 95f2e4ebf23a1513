"""A guided search learns from the finished sweeps in its storage."""

import math
from pathlib import Path
from typing import Any

import pytest

from sweeps.errors import UserError
from sweeps.search.recorded import recorded_settings
from sweeps.search.warm_start import Known
from sweeps.store.earlier_sweeps import known_files, read_known, recorded_for
from sweeps.store.sweep_store import SweepStore
from tests.builders import baseline, finalist, make_sweep, new_store, trial

TRIED = trial(1, "focal", {"gamma": 2.0}, temperature=0.75, val_error=0.11)
RECORDS = [baseline(temperature=1.5), TRIED, finalist(2, TRIED, 1, temperature=3.0, val_error=0.11)]


def sweep_that_learns(*names: str, model: str = "small_cnn") -> Any:
    search = {"sampler": "guided", "learn_from": list(names)}
    return make_sweep("new", model=model, search=search)


@pytest.fixture
def storage(tmp_path: Path) -> str:
    done = new_store(tmp_path, make_sweep("done"), RECORDS)
    done.save_answer({})
    new_store(tmp_path, make_sweep("unfinished"), RECORDS)
    return str(tmp_path)


def test_all_are_the_shipped_settings_and_the_finished_sweeps(storage: str) -> None:
    found = recorded_for(sweep_that_learns("all"), storage)
    assert found[: len(recorded_settings())] == list(recorded_settings())
    own = {each.setting.loss: each for each in found[len(recorded_settings()) :]}
    assert {each.source for each in own.values()} == {"done"}
    assert own["cross_entropy"].log_ratio == 0
    seeds = math.log(0.75) / 2 + math.log(3.0) / 2
    assert own["focal"].log_ratio == pytest.approx(seeds - math.log(1.5))
    assert own["focal"].error_ratio == pytest.approx(0.1)
    assert own["focal"].baseline_error == pytest.approx(0.1)


def test_sweeps_of_the_same_model_count_more(storage: str) -> None:
    same, other = (
        recorded_for(sweep_that_learns("done", model=model), storage)[0].weight
        for model in ("small_cnn", "mlp")
    )
    assert same > other == 1


def test_none_is_nothing_and_only_a_guided_search_learns(storage: str) -> None:
    assert recorded_for(sweep_that_learns("none"), storage) == []
    assert recorded_for(make_sweep("new"), storage) == []
    other = make_sweep("new", search={"sampler": "guided", "objective": "val_error"})
    assert recorded_for(other, storage) == []


@pytest.mark.parametrize(
    ("name", "reason"), [("missing", "missing"), ("unfinished", "not finished")]
)
def test_a_sweep_that_cannot_be_learned_from_is_refused(
    storage: str, name: str, reason: str
) -> None:
    with pytest.raises(UserError, match=rf"search\.learn_from.*{reason}"):
        recorded_for(sweep_that_learns(name), storage)


def test_they_are_kept_in_the_sweep_s_folder(storage: str, tmp_path: Path) -> None:
    settings = recorded_for(sweep_that_learns("done"), storage)
    store = new_store(
        tmp_path, sweep_that_learns("done"), files=known_files(Known(recorded=settings))
    )
    assert read_known(store.folder).recorded == settings
    store.folder.write("recorded_settings.json", b"[{")
    assert read_known(store.folder).recorded == []
    assert read_known(SweepStore(storage, "done").folder).recorded == []
