"""A sweep that learns from earlier sweeps, without counting their trials as its own."""

import json
import math
import shutil
from pathlib import Path
from typing import Any

import optuna
import pytest

from sweeps.errors import UserError
from sweeps.planning.preview import plan_facts
from sweeps.results.best import as_sweep_file
from sweeps.search.plan import Plan
from sweeps.search.record import TrialRecord, flat
from sweeps.search.trial_queue import TrialQueue
from sweeps.search.warm_start import EarlierTrial, Known, earlier_trials
from sweeps.service.running import run_sweep
from sweeps.store.earlier_sweeps import known_files
from sweeps.store.sweep_store import SweepStore
from sweeps.sweep_file.loading import dump_sweep, parse_sweep
from sweeps.sweep_file.schema import SweepFile
from tests.builders import baseline, make_sweep, new_store, queue_of, trial
from trainables.contract.setting import Setting


def learning(name: str, *losses: Any, **search: Any) -> SweepFile:
    return make_sweep(
        name,
        losses=list(losses or ["focal", "mbls"]),
        training={"epochs": 1},
        search={"trials": 10, **search},
    )


def focal(number: int, gamma: float, **values: Any) -> TrialRecord:
    return trial(number, "focal", {"gamma": gamma}, **{"val_ece": 0.05, **values})


@pytest.fixture
def storage(tmp_path: Path) -> Path:
    """Two earlier sweeps: one over everything, and one whose baseline failed."""
    new_store(
        tmp_path,
        learning("first"),
        [
            baseline(),
            focal(1, 3.0, role="published", val_ece=0.02),
            focal(2, 4.0, val_ece=0.0, val_error=0.9),
            focal(3, 5.0, state="stopped", val_ece=0.001),
            focal(4, 6.0, state="failed"),
            focal(5, 7.0, val_ece=math.nan),
            focal(6, 3.0, role="finalist", val_ece=0.01),
            trial(7, "brier", {}),
            trial(8, "mbls", {"margin": 6.0, "lam": 0.1}, val_ece=0.05),
            trial(9, "mbls", {"margin": 6.0, "lam": 0.5}),
            trial(10, "mbls", {"margin": 6.0}),
        ],
    )
    second = [baseline(state="failed"), focal(1, 8.0, val_error=0.3), focal(2, 9.0, val_error=0.2)]
    new_store(tmp_path, learning("second"), second)
    return tmp_path


def learned(sweep: SweepFile, storage: Path) -> list[EarlierTrial]:
    names = sweep.search.named
    return earlier_trials(sweep, {n: SweepStore(str(storage), n).load_records() for n in names})


def test_finished_trials_that_fit_are_taken(storage: Path) -> None:
    fixed = {"name": "mbls", "hyperparameters": {"lam": 0.1}}
    sweep = learning("new", "focal", fixed, guard=0.05, learn_from="first")
    assert learned(sweep, storage) == [
        EarlierTrial(Setting("focal", {"gamma": 3.0}), 0.02, pytest.approx(-0.05)),
        EarlierTrial(Setting("focal", {"gamma": 4.0}), 0.0, pytest.approx(0.75)),
        EarlierTrial(Setting("mbls", {"margin": 6.0, "lam": 0.1}), 0.05, pytest.approx(-0.05)),
    ]
    narrow = {"name": "focal", "space": {"gamma": {"low": 3.5, "high": 8.5}}}
    both = learning("new", narrow, guard=0.05, learn_from=["first", "second"])
    assert learned(both, storage) == [
        EarlierTrial(Setting("focal", {"gamma": 4.0}), 0.0, pytest.approx(0.75)),
        EarlierTrial(Setting("focal", {"gamma": 8.0}), 0.05, pytest.approx(0.05)),
    ]
    assert learned(learning("new"), storage) == []


def test_earlier_trials_have_all_objectives(storage: Path) -> None:
    sweep = learning("new", "focal", learn_from="first", objective=["val_ece", "val_nll"])
    first = learned(sweep, storage)[0]
    assert (first.objective, first.others) == (0.02, [0.1])
    store = new_store(storage, sweep)
    store.folder.write("warm_start.json", json.dumps([flat(first)]).encode())
    assert queue_of(sweep, store).suggestions.study._study.get_trials()[0].values == [0.02, 0.1]


def test_earlier_trials_are_held_to_the_constraints_of_the_new_sweep(storage: Path) -> None:
    limits = {"val_nll": {"above_baseline": 0.01}, "val_brier": 0.5}
    assert learned(learning("new", "focal", constraints=limits), storage) == []
    sweep = learning("new", "focal", learn_from="first", constraints={"val_nll": 0.3})
    first = learned(sweep, storage)[0]
    assert first.constraints == pytest.approx({"val_nll": -0.2})
    store = new_store(storage, sweep)
    store.folder.write("warm_start.json", json.dumps([flat(first)]).encode())
    known = queue_of(sweep, store).suggestions.study._study.get_trials()
    assert known[0].constraints.keys() == {"guard", "val_nll"}


@pytest.mark.parametrize(
    ("losses", "names", "message"),
    [
        (["focal"], "frist", r"search.learn_from: no sweep named 'frist' .*did you mean 'first'"),
        (["dual_focal"], "first", r"search.learn_from = first: no finished trial there has a loss"),
    ],
)
def test_what_cannot_be_learned_from_is_reported_before_anything_starts(
    storage: Path, losses: list[str], names: str, message: str
) -> None:
    with pytest.raises(UserError, match=message):
        run_sweep(learning("new", *losses, learn_from=names), str(storage), debug=True)
    assert not SweepStore(str(storage), "new").exists()


def begun(storage: Path, name: str, **search: Any) -> TrialQueue:
    """The queue of a new sweep, or of a resumed one if it exists."""
    store, sweep = SweepStore(str(storage), name), learning(name, "focal", **search)
    if not store.exists():
        store.create(sweep, known_files(Known(learned(sweep, storage))))
    return queue_of(sweep, store)


def carry_out(queue: TrialQueue, count: int) -> list[Setting]:
    for number in range(count):
        made = queue.next()
        assert made is not None
        queue.result(made.number, trial(0, val_ece=0.05 + 0.001 * number).outcome)
        queue.end(made.number, "finished")
    return [each.setting for each in queue.records]


def test_optuna_knows_them_and_the_sweep_does_not_count_them(storage: Path) -> None:
    warm = begun(storage, "warm", learn_from="first")
    known = warm.suggestions.study._study.get_trials()
    assert [t.params["focal.gamma"] for t in known] == [3.0, 4.0]
    assert [t.value for t in known] == [0.02, 0.0]
    assert {t.state for t in known} == {optuna.trial.TrialState.COMPLETE}
    assert warm.suggestions.study._study.best_trial.value == 0.02  # the other is outside the guard
    assert warm.records == []
    settings = carry_out(warm, 10)
    assert [each.role for each in warm.records] == ["baseline"] + ["published"] * 4 + ["search"] * 5
    assert warm.records[0].number == 0
    assert len(settings) == 10


def test_a_resumed_sweep_starts_from_the_same_though_the_earlier_one_is_gone(
    storage: Path,
) -> None:
    many = [focal(n, n / 2, val_ece=0.01 * abs(n - 9)) for n in range(1, 20)]
    new_store(storage, learning("many"), many)
    undisturbed = carry_out(begun(storage, "undisturbed", learn_from="many"), 10)
    assert undisturbed != carry_out(begun(storage, "cold"), 10)
    carry_out(begun(storage, "cut", learn_from="many"), 6)
    shutil.rmtree(storage / "sweeps/many")
    assert carry_out(begun(storage, "cut", learn_from="many"), 4) == undisturbed


def test_it_is_in_the_plan_and_the_file_and_not_in_the_best_settings_file() -> None:
    sweep = learning("new", learn_from=["a", "b"])
    assert "a, b" in plan_facts(Plan(sweep))["learns from"]
    assert "learns from" not in plan_facts(Plan(learning("new")))
    tree = sweep.model_dump(mode="json")
    assert parse_sweep(tree) == sweep
    assert "learn_from:\n  - a\n  - b" in dump_sweep(sweep)
    setting = Setting("focal", {"gamma": 3.0})
    assert parse_sweep(as_sweep_file(setting, tree)).search.named == ()
