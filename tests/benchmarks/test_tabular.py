"""Search policies on synthetic trials: planted degenerate and lucky settings never win."""

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

from benchmarks.tabular.curves import Curves, Trials, with_degenerate
from benchmarks.tabular.findings import spreads
from benchmarks.tabular.pausing import Promotions, replay_pausing
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
from benchmarks.tabular.samplers import LossFirst, Values, better_half, thompson
from benchmarks.tabular.stoppers import (
    AcrossLosses,
    Extrapolation,
    HyperBand,
    MedianStopping,
    NoFinalist,
    lowest_to_come,
)
from benchmarks.tabular.transfer import gains, ranked_by_other_datasets
from sweeps.search.plan import Plan
from sweeps.search.record import TrialRecord
from sweeps.search.rules import rule_of
from sweeps.search.samplers import SAMPLERS, random
from sweeps.search.space import SearchSpace
from sweeps.search.stopping import STOPPERS, Stopper
from sweeps.sweep_file.schema import SweepFile
from tests.builders import make_sweep, ranked, trial
from trainables.contract.report import Entry
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


NEW_POLICIES = [
    *(f"early_stopping/{name}" for name in list(POLICIES["early_stopping"])[12:]),
    *(f"samplers/{name}" for name in list(POLICIES["samplers"])[8:]),
]


@pytest.mark.parametrize("name", NEW_POLICIES)
def test_degenerate_settings_never_win_with_any_stopper_or_sampler(name: str) -> None:
    truth = truth_of(sweep_of(), share=0.5)
    policy = POLICIES[name.split("/", maxsplit=1)[0]][name.split("/")[1]]
    assert not run(policy, truth.sweep, truth, 10, 0).degenerate


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
    from benchmarks.tabular.syne_tune_schedulers import SyneTuneASHA

    sweep = sweep_of()
    curves = Curves(recorded(sweep), SearchSpace(sweep.losses))
    policy = SyneTuneASHA("val_nll")
    selected = policy(sweep, curves, 10, (0, 1, 2))
    assert selected == policy(sweep, curves, 10, (0, 1, 2))
    assert selected.setting in curves.settings
    assert 16 < selected.epochs < 16 * EPOCHS
