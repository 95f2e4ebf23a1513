"""Tests of these ideas; `python -m pytest research` runs them."""

import math
from collections import Counter
from collections.abc import Iterator
from functools import partial
from statistics import fmean
from typing import Any, ClassVar
from unittest.mock import patch

import numpy as np
import optuna
import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution
from optuna.samplers import RandomSampler
from optuna.trial import TrialState, create_trial

from benchmarks.tabular.curves import Curves, Trials
from benchmarks.tabular.policies import (
    POLICIES,
    add_to_the_engine,
)
from benchmarks.tabular.regret import Truth, run
from research.pausing import Promotions, replay_pausing
from research.policies import SAMPLED, STOPPED, register
from research.samplers import LossFirst, Values, better_half, thompson
from research.stoppers import (
    Extrapolation,
    HyperBand,
    MedianStopping,
    NoFinalist,
    lowest_to_come,
)
from research.transfer import gains, ranked_by_other_datasets
from sweeps.search.plan import Plan
from sweeps.search.record import TrialRecord
from sweeps.search.samplers import SAMPLERS
from sweeps.search.space import SearchSpace
from sweeps.search.stopping import STOPPERS, Stopper
from tests.benchmarks.test_tabular import EPOCHS, history, recorded, sweep_of, truth_of
from tests.builders import make_sweep, trial
from trainables.contract.setting import BASELINE, Setting

NEW_POLICIES = {**STOPPED, **SAMPLED}


@pytest.fixture(autouse=True)
def _policies() -> Iterator[None]:
    """Registers the stoppers and samplers for these tests only."""
    with patch.dict(STOPPERS), patch.dict(SAMPLERS), patch.dict(POLICIES):
        add_to_the_engine()
        register()
        yield


def test_median_stopping() -> None:
    stopper = MedianStopping(Plan(sweep_of(scheduler={"grace_period": 2})))

    def judge(number: int, values: list[float]) -> list[bool]:
        record = TrialRecord(number, "search", Setting("focal", {}), 0, 0.0)
        said = []
        for epoch, value in enumerate(values, start=1):
            record.add({"epoch": float(epoch), "val_nll": value})
            said.append(stopper.judge(record, record.outcome))
        return said

    for number, level in enumerate((1.0, 2.0, 3.0)):  # too few trials to compare with
        assert not any(judge(number, [level] * EPOCHS))
    assert judge(3, [2.5] * EPOCHS) == [False] + [True] * 7 + [False]  # not at the last epoch
    assert not any(judge(4, [9.0, 1.5] + [9.0] * 7))  # its best value counts


def test_settings_are_ranked_by_what_they_did_on_the_other_data_sets() -> None:
    sweep = sweep_of()
    good, bad, worse = SearchSpace(sweep.losses).initial_settings(10)[1:4]

    def truth(eces: dict[Setting, float], error: float = 0.1) -> Truth:
        trials = [
            (s, n, history(eces[s], error if s == bad else 0.1)) for s in eces for n in range(3)
        ]
        return Truth(Curves(trials, SearchSpace(sweep.losses)), sweep)

    here = truth({BASELINE: 0.1, good: 0.3, bad: 0.01, worse: 0.02})
    there = truth({BASELINE: 0.1, good: 0.02, bad: 0.01, worse: 0.05}, error=0.3)
    elsewhere = truth({BASELINE: 0.5, good: 0.1, bad: 0.2, worse: 0.4})
    found = gains(there)
    assert [found[s] for s in (BASELINE, good, bad, worse)] == pytest.approx([1, 0.2, 1, 0.5])
    truths = {"here": here, "there": there, "elsewhere": elsewhere}
    assert ranked_by_other_datasets(truths, "here") == [BASELINE, good, worse, bad]


@pytest.mark.parametrize("name", NEW_POLICIES)
def test_degenerate_settings_never_win_with_any_stopper_or_sampler(name: str) -> None:
    truth = truth_of(sweep_of(), share=0.5)
    assert not run(NEW_POLICIES[name], truth.sweep, truth, 10, 0).degenerate


class CountingCurves(Curves):
    """Counts how often each epoch of each trial was trained."""

    def __init__(self, trials: Trials, space: SearchSpace) -> None:
        super().__init__(trials, space)
        self.trained: Counter[tuple[Setting, int, float]] = Counter()

    def history(self, setting: Setting, seed: int) -> Any:
        for entry in super().history(setting, seed):
            self.trained[setting, seed, entry["epoch"]] += 1
            yield entry


@pytest.mark.parametrize("options", [{}, {"across": True}, {"synchronous": True}])
def test_a_promoted_trial_continues_where_it_paused(options: dict[str, bool]) -> None:
    sweep = sweep_of(trials=30)
    curves = CountingCurves(recorded(sweep), SearchSpace(sweep.losses))
    records = replay_pausing(sweep, curves, 10, (0, 1, 2), **options)
    assert set(curves.trained.values()) == {1}
    assert sum(curves.trained.values()) == sum(record.epochs for record in records)
    for record in records:
        assert [entry["epoch"] for entry in record.history] == list(range(1, record.epochs + 1))
    searched = [r for r in records if r.searched]
    assert {r.epochs for r in searched if r.state == "stopped"} == {1, 3}
    assert {r.epochs for r in searched if r.state == "finished"} == {EPOCHS}
    assert {r.state for r in records if not r.searched} == {"finished"}
    assert len(searched) == 30 and sum(r.epochs for r in searched) < 30 * 4


def reach(
    promotions: Promotions, number: int, nll: float, epoch: int = 1, loss: str = "focal"
) -> None:
    assert promotions.pauses(trial(number, loss, history=[{"epoch": float(epoch), "val_nll": nll}]))


def test_the_best_third_of_a_rung_is_promoted_and_none_twice() -> None:
    promotions = Promotions(sweep_of())
    reaches = partial(reach, promotions)
    reaches(1, 0.3)
    reaches(2, 0.1)
    reaches(9, 0.0, loss="mbls")  # another loss, which does not compete with these
    assert promotions.next() is None  # the best third of two trials is empty
    reaches(3, float("nan"))
    assert [promotions.next(), promotions.next()] == [2, None]
    for number in (4, 5, 6):
        reaches(number, 0.2)
    assert [promotions.next(), promotions.next()] == [4, None]
    for number in (2, 4, 5):
        reaches(number, number, epoch=3)
    reaches(7, 0.0)
    assert promotions.next() == 2  # the furthest trial comes first
    whole = trial(8, history=[{"epoch": float(EPOCHS), "val_nll": 0.0}])
    assert not promotions.pauses(whole)


@pytest.mark.parametrize(("synchronous", "order"), [(False, [1, 4]), (True, [4, 1])])
def test_all_reach_a_rung_before_one_continues_or_not(synchronous: bool, order: list[int]) -> None:
    promotions = Promotions(sweep_of(), synchronous=synchronous)
    for number in (4, 5, 6):
        reach(promotions, number, number)
    for number in (1, 2, 3):
        reach(promotions, number, number, epoch=3)
    assert [promotions.next(), promotions.next()] == order


def test_a_budget_of_epochs_binds_where_trials_pause() -> None:
    budget = {"trials": 30, "max_epochs": 90}
    sweep = make_sweep(training={"epochs": EPOCHS}, search=budget, selection={"seeds": 2})
    curves = Curves(recorded(sweep), SearchSpace(sweep.losses))
    records = replay_pausing(sweep, curves, 10, (0, 1, 2))
    assert sum(record.epochs for record in records) <= 90
    assert [record for record in records if record.role == "finalist"]


def test_hyperband_begins_to_stop_later_for_some_and_never_for_a_share() -> None:
    sweep = sweep_of(scheduler={"grace_period": 1})
    stopper = HyperBand(Plan(sweep))  # brackets of 9, 5 and 3 of 17 trials, from epochs 1, 3 and 9
    assert stopper.rungs == (1, 3)
    ended: Counter[int] = Counter()
    for number in range(340):
        record = TrialRecord(number, "search", Setting("focal", {}), 0, 0.0)
        for epoch in range(1, EPOCHS + 1):
            entry = {"epoch": float(epoch), "val_nll": float(number)}  # each worse than all before
            record.add(entry)
            if stopper.judge(record, entry):
                break
        ended[record.epochs] += 1
    shares = [ended[epoch] / 340 for epoch in (1, 3, EPOCHS)]
    assert shares == pytest.approx([9 / 17, 5 / 17, 3 / 17], abs=0.06)


def test_a_power_law_is_extrapolated() -> None:
    epochs = np.arange(1, 7)
    assert lowest_to_come((0.2 + 0.5 / epochs).tolist(), 30) == pytest.approx(0.2 + 0.5 / 30)
    draw = np.random.default_rng(0)
    lows = [
        lowest_to_come((0.2 + 0.5 / epochs + draw.normal(0, 0.01, 6)).tolist(), 30)
        for _ in range(200)
    ]
    assert fmean(low < 0.2 + 0.5 / 30 for low in lows) > 0.9
    assert lowest_to_come((0.2 + 0.5 / epochs + 0.1 * (epochs % 2)).tolist(), 30) < 0.2


def judged(stopper: Stopper, number: int, role: Any = "search", **last: float) -> int:
    """The epoch after which a trial with these curves is stopped; the last if it is not."""
    record = TrialRecord(number, role, Setting("focal", {}), 0, 0.0)
    for epoch in range(1, EPOCHS + 1):
        record.add({"epoch": float(epoch), **{k: v + 1 / epoch for k, v in last.items()}})
        if stopper.judge(record, record.outcome):
            break
    return record.epochs


def test_trials_that_will_not_be_the_best_of_their_loss_are_stopped() -> None:
    stopper = Extrapolation(Plan(sweep_of(scheduler={"grace_period": 1})))
    assert judged(stopper, 1, val_nll=1.0) == EPOCHS
    assert judged(stopper, 2, val_nll=1.1) == 5  # as soon as there are enough points
    assert judged(stopper, 3, val_nll=0.9) == EPOCHS
    assert judged(stopper, 4, val_nll=1.0) == 5


def test_trials_that_will_not_be_finalists_are_stopped() -> None:
    sweep = sweep_of(scheduler={"grace_period": 1}, selection={"finalists": 2})
    stopper = NoFinalist(Plan(sweep))
    assert judged(stopper, 0, "baseline", val_error=0.1, val_ece=0.3) == EPOCHS
    assert judged(stopper, 1, val_error=0.5, val_ece=0.0) == 5  # beyond the guard
    assert judged(stopper, 2, val_error=0.1, val_ece=0.2) == EPOCHS
    assert judged(stopper, 3, val_error=0.1, val_ece=0.31) == 5  # two are better
    assert judged(stopper, 4, val_error=0.1, val_ece=0.25) == EPOCHS


def test_the_better_half_of_the_losses_takes_turns() -> None:
    draw = np.random.default_rng(0)
    values = {"a": [0.1], "b": [0.2, math.nan], "c": [0.3], "d": [math.inf, 0.4]}
    assert better_half(values, draw) == "a"  # of a and b the one with fewer trials
    assert better_half({**values, "d": [math.nan]}, draw) in ("a", "d")  # d has no result yet


def test_thompson_sampling_prefers_what_is_better_by_as_much_as_is_known() -> None:
    draw = np.random.default_rng(0)
    values = {"good": [0.1, 0.12], "bad": [0.3, 0.32], "broken": [math.inf], "stopped": [math.nan]}
    drawn = Counter(thompson(values, draw) for _ in range(300))
    assert drawn["bad"] == drawn["broken"] == 0 < drawn["stopped"] < drawn["good"]
    alike = {"one": [0.1, 0.3], "other": [0.1, 0.31]}
    assert 100 < Counter(thompson(alike, draw) for _ in range(300))["one"] < 260


class Watched(RandomSampler):
    """Records its inputs."""

    shown: ClassVar[list[optuna.trial.FrozenTrial]] = []

    def sample_independent(self, study: Any, *others: Any) -> Any:
        type(self).shown = study.get_trials(states=(TrialState.COMPLETE, TrialState.PRUNED))
        return super().sample_independent(study, *others)


def test_within_a_loss_its_own_trials_are_seen_with_what_they_break() -> None:
    def bandit(values: Values, draw: np.random.Generator) -> str:
        assert values == {
            "focal": [0.2, math.inf, pytest.approx(math.nan, nan_ok=True)],
            "mbls": [],
        }
        return "focal"

    losses = CategoricalDistribution(["focal", "mbls"])
    gamma = FloatDistribution(0, 5)
    study = optuna.create_study(sampler=LossFirst(0, bandit, Watched))
    for value, state, broken in (
        (0.2, TrialState.COMPLETE, -0.1),
        (0.1, TrialState.COMPLETE, 0.1),
        (None, TrialState.PRUNED, -0.1),
    ):
        study.add_trial(
            create_trial(
                state=state,
                value=value,
                params={"loss": "focal", "focal.gamma": 1.0},
                distributions={"loss": losses, "focal.gamma": gamma},
                intermediate_values={1: 0.5},
                constraints={"guard": broken},
            )
        )
    trial = study.ask({"loss": losses, "focal.gamma": gamma})
    assert trial.params["loss"] == "focal" and 0 <= trial.params["focal.gamma"] <= 5
    assert [known.constraints["guard"] for known in Watched.shown] == [-0.1, 0.1, -0.1]
    assert [known.params for known in Watched.shown] == [{"focal.gamma": 1.0}] * 3


def test_syne_tune_is_deterministic() -> None:
    pytest.importorskip("syne_tune", reason="uv run --with 'syne-tune==0.16.*' brings it")
    from research.syne_tune_schedulers import SyneTuneASHA

    sweep = sweep_of()
    curves = Curves(recorded(sweep), SearchSpace(sweep.losses))
    policy = SyneTuneASHA("val_nll")
    selected = policy(sweep, curves, 10, (0, 1, 2))
    assert selected == policy(sweep, curves, 10, (0, 1, 2))
    assert selected.setting in curves.settings
    assert 16 < selected.epochs < 16 * EPOCHS
