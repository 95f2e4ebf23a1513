"""Search policies on synthetic trials: planted degenerate and lucky settings never win."""

from collections.abc import Iterator
from functools import partial
from statistics import fmean
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

from benchmarks.tabular.curves import Curves, with_degenerate
from benchmarks.tabular.findings import spreads
from benchmarks.tabular.policies import (
    DEFAULT,
    POLICIES,
    Calsweep,
    Plain,
    add_to_the_engine,
    simplest,
    with_search_seed,
)
from benchmarks.tabular.regret import Truth, run
from benchmarks.tabular.replay import replay
from benchmarks.tabular.stoppers import AcrossLosses
from sweeps.search.plan import Plan
from sweeps.search.record import TrialRecord
from sweeps.search.rules import rule_of
from sweeps.search.samplers import SAMPLERS, random
from sweeps.search.space import SearchSpace
from sweeps.search.stopping import STOPPERS
from sweeps.sweep_file.schema import SweepFile
from tests.builders import make_sweep, ranked, trial
from trainables.contract.messages import Entry
from trainables.contract.setting import BASELINE, Setting

EPOCHS = 9
PLAIN = Plain(random, "val_ece", asha=False, any_epoch=True)
SPLIT_METRICS = ("nll", "error", "ece", "brier", "debiased_ece", "smooth_ece", "adaptive_ece")
OBJECTIVES = [f"val_{name}{after}" for name in SPLIT_METRICS for after in ("", "_scaled")]


@pytest.fixture(autouse=True)
def _policies_of_the_benchmark() -> Iterator[None]:
    """Registers the benchmark's stoppers and samplers for these tests only."""
    with patch.dict(STOPPERS), patch.dict(SAMPLERS):
        add_to_the_engine()
        yield


def sweep_of(trials: int = 16, **sections: Any) -> SweepFile:
    """A sweep with two fresh seeds, as the recordings have."""
    selection = {"seeds": 2, **sections.pop("selection", {})}
    recipe = {"training": {"epochs": EPOCHS}, "search": {"trials": trials}, "selection": selection}
    return make_sweep(**recipe, **sections)


def history(ece: float, error: float, epochs: int = EPOCHS, **last: float) -> list[Entry]:
    """Curves that decrease to these values, with all other metrics derived from them."""
    entries = []
    for epoch in range(1, epochs + 1):
        behind = 0.1 * (EPOCHS - epoch)
        values = {"ece": ece + behind, "error": min(0.9, error + behind), "nll": ece + behind + 1}
        entry = {
            f"{split}_{name}{after}": values.get(name, ece + behind)
            for split in ("val", "test")
            for name in SPLIT_METRICS
            for after in ("", "_scaled")
        }
        entries.append({"epoch": float(epoch), **entry})
    entries[-1].update(last)
    return entries


def recorded(sweep: SweepFile) -> Iterator[tuple[Setting, int, list[Entry]]]:
    """Forty settings with three seeds, ECEs from .02 to .06 and nearly equal errors."""
    space = SearchSpace(sweep.losses)
    draw = np.random.default_rng(0)
    settings = space.initial_settings(10)
    for loss, branch in space.branches.items():
        for _ in range(20):
            values = {name: draw.uniform(d.low, d.high) for name, d in branch.items()}  # type: ignore[attr-defined]
            settings.append(Setting(loss, values))
    for setting in settings:
        ece, error = draw.uniform(0.02, 0.06), draw.uniform(0.095, 0.105)
        for seed in range(3):
            own = abs(ece + draw.normal(0, 0.001))
            yield setting, seed, history(own, error)


def truth_of(sweep: SweepFile, share: float = 0.0) -> Truth:
    trials = recorded(sweep)
    if share:
        trials = with_degenerate(trials, share, 10, seed=1)
    return Truth(Curves(trials, SearchSpace(sweep.losses)), sweep)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_a_planted_degenerate_classifier_wins_under_no_objective(objective: str) -> None:
    truth = truth_of(sweep_of(), share=0.5)
    policy = Calsweep((f"search.objective={objective}",))
    assert not any(run(policy, truth.sweep, truth, 10, number).degenerate for number in range(2))


def test_without_a_guard_it_does() -> None:
    truth = truth_of(sweep_of(), share=0.5)
    rows = [run(PLAIN, truth.sweep, truth, 10, number) for number in range(2)]
    assert all(row.degenerate for row in rows)
    assert fmean(row.ece for row in rows) == 0.0  # the ECE of a constant classifier


def test_a_planted_lucky_trial_does_not_win() -> None:
    sweep = sweep_of(trials=60)
    lucky = SearchSpace(sweep.losses).initial_settings(10)[2]
    trials = [
        (setting, seed, history(0.001 if seed == 0 else 0.2, 0.1) if setting == lucky else own)
        for setting, seed, own in recorded(sweep)
    ]
    curves = Curves(trials, SearchSpace(sweep.losses))
    records = replay(sweep, curves, 10, (0, 1, 2))
    assert lucky in [record.setting for record in records if record.role == "finalist"]
    chosen = Calsweep()(sweep, curves, 10, (0, 1, 2))
    assert chosen.setting != lucky
    assert PLAIN(sweep_of(60), curves, 10, (0,)).promised < 0.03 < chosen.promised + 0.02


def test_the_best_there_is_is_not_the_luckiest() -> None:
    sweep = sweep_of()
    draw = np.random.default_rng(0)
    trials = [
        (setting, seed, history(0.05 + draw.normal(0, 0.01), 0.1))
        for setting, seed, _ in recorded(sweep)
    ]
    truth = Truth(Curves(trials, SearchSpace(sweep.losses)), sweep)
    luckiest = min(truth.mean(setting, "test_ece") for setting in truth.settings)
    assert luckiest < 0.042 < truth.best < 0.058
    assert truth.standard_error == pytest.approx(0.01 * (2 / 3) ** 0.5, rel=0.3)


def test_the_best_there_is_is_within_the_guard() -> None:
    sweep = sweep_of()
    trials = [(s, n, history(0.0, 0.3) if s != BASELINE else h) for s, n, h in recorded(sweep)]
    truth = Truth(Curves(trials, SearchSpace(sweep.losses)), sweep)
    assert truth.best == pytest.approx(truth.mean(BASELINE, "test_ece"), abs=0.003)


def test_every_policy_selects_a_recorded_setting_deterministically() -> None:
    truth = truth_of(sweep_of(trials=6))
    for name in ("tools", "early_stopping", "samplers", "selection"):
        for policy in POLICIES[name].values():
            play = partial(policy, truth.sweep, truth.curves, 10, (2, 0, 1))
            selected = play()
            assert selected == play()
            assert selected.setting in truth.settings
            assert selected.epochs > 0


def test_a_better_stopper_or_none_costs_epochs_and_no_trial_more() -> None:
    truth = truth_of(sweep_of())
    stopped = POLICIES["tools"][DEFAULT](truth.sweep, truth.curves, 10, (0, 1, 2))
    nothing = POLICIES["early_stopping"]["no stopping"](truth.sweep, truth.curves, 10, (0, 1, 2))
    assert stopped.epochs < nothing.epochs <= (16 + 4 * 2) * EPOCHS


def test_published_settings_are_capped_at_a_share() -> None:
    sweep = sweep_of(trials=10)
    truth = truth_of(sweep)
    initial = [BASELINE]
    records = replay(sweep, truth.curves, 10, (0, 1, 2), initial=initial)
    assert [record.role for record in records[:2]] == ["baseline", "search"]
    first = SearchSpace(sweep.losses).initial_settings(10)
    records = replay(sweep, truth.curves, 10, (0, 1, 2))
    assert [record.setting for record in records[:4]] == first[:4]


def test_the_nearest_setting_on_the_scale_of_its_space() -> None:
    sweep = make_sweep(losses=["label_smoothing"])
    values = [0.005, 0.03, 0.3]
    trials = [(Setting("label_smoothing", {"alpha": v}), 0, history(v, 0.1)) for v in values]
    curves = Curves([*trials, (BASELINE, 0, history(0, 0.1))], SearchSpace(sweep.losses))
    for alpha, nearest in ((0.01, 0.005), (0.02, 0.03), (0.09, 0.03), (0.1, 0.3)):
        found = curves.nearest(Setting("label_smoothing", {"alpha": alpha}))
        assert found.hyperparameters["alpha"] == nearest


def test_a_setting_of_some_seeds_has_its_own_history_and_stands_for_no_other() -> None:
    sweep = make_sweep(losses=["label_smoothing"])
    some, whole = (Setting("label_smoothing", {"alpha": alpha}) for alpha in (0.01, 0.3))
    trials = [(some, 0, history(0.01, 0.1)), *((whole, seed, history(0.3, 0.1)) for seed in (0, 1))]
    curves = Curves(trials, SearchSpace(sweep.losses))
    assert curves.settings == [whole]
    assert curves.history(some, 0)[-1]["val_ece"] == 0.01
    assert curves.history(some, 1) == curves.history(whole, 1)
    other = Setting("label_smoothing", {"alpha": 0.011})
    assert curves.history(other, 0) == curves.history(whole, 0)


def test_asha_across_losses_compares_them() -> None:
    stopper = AcrossLosses(Plan(sweep_of(scheduler={"grace_period": 1})))
    entry = {"epoch": 1.0, "val_nll": 1.0}
    assert not stopper.judge(trial(1, "focal"), entry)
    assert stopper.judge(trial(2, "mbls"), entry | {"val_nll": 2.0})


def again(number: int, loss: str, role: Any, values: list[float]) -> list[TrialRecord]:
    """A trial of the search, and its setting with fresh seeds."""
    first = trial(number, loss, {}, role=role, val_ece=values[0], val_error=0.1)
    seeds = [
        trial(100 + number + s, loss, {}, role="finalist", seed=s, val_ece=value, val_error=0.1)
        for s, value in enumerate(values[1:], start=1)
    ]
    return [first, *seeds]


def test_the_simplest_within_one_standard_error() -> None:
    rule = rule_of(make_sweep())
    best = again(10, "focal", "search", [0.01, 0.018, 0.022])
    near = again(0, "cross_entropy", "baseline", [0.05, 0.020, 0.024])
    far = again(0, "cross_entropy", "baseline", [0.01, 0.040, 0.044])
    assert simplest([*near, *best], rule) == ranked([*near, *best]).baseline
    assert simplest([*far, *best], rule) == ranked([*far, *best]).chosen
    assert ranked([*near, *best]).chosen != ranked([*near, *best]).baseline


def test_judged_by_all_seeds() -> None:
    first = again(0, "cross_entropy", "baseline", [0.05, 0.01, 0.01])
    second = again(10, "focal", "search", [0.01, 0.02, 0.02])
    records = [*first, *second]
    chosen = with_search_seed(records, rule_of(make_sweep()))
    assert chosen is not None and chosen.loss == "focal"
    assert ranked(records).chosen != chosen


def test_spreads_over_seeds_and_samples_are_found_again() -> None:
    sweep = sweep_of()
    draw = np.random.default_rng(0)
    trials = []
    for setting, seed, _ in recorded(sweep):
        net = 0.2 + draw.normal(0, 0.02)  # the result of this seed
        val, test = (net + draw.normal(0, 0.3 / n**0.5) for n in (2_500, 10_000))
        trials.append((setting, seed, history(net, 0.1, val_ece=val + 0.1, test_ece=test)))
    seeds, within = spreads(Truth(Curves(trials, SearchSpace(sweep.losses)), sweep), 2_500, 10_000)
    assert within == pytest.approx(0.3, rel=0.2)
    assert seeds == pytest.approx(0.02, rel=0.2)
