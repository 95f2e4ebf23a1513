"""The search space, the order of settings, and their representation in Optuna."""

import warnings
from typing import Any

import optuna
import pytest
from hypothesis import given
from hypothesis import strategies as st
from optuna.distributions import (
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.exceptions import ExperimentalWarning

from search_spaces import available_search_spaces, published_settings, search_space
from sweeps.planning.checks import check_sweep
from sweeps.search.plan import Plan
from sweeps.search.record import TrialRecord
from sweeps.search.samplers import tpe
from sweeps.search.space import SearchSpace, loss_space
from sweeps.search.study import SweepStudy
from sweeps.sweep_file.schema import SweepFile
from tests.builders import make_sweep, trial
from trainables.contract.messages import Role
from trainables.contract.setting import BASELINE, Setting


def searching(*losses: Any, **search: Any) -> SweepFile:
    return make_sweep(losses=list(losses), search=search)


def test_the_users_ranges_replace_the_losses_own() -> None:
    sweep = searching(
        {"name": "mbls", "space": {"lam": {"low": 0.5, "high": 2}}},
        {"name": "r_aurc", "space": {"confidence": {"choices": ["margin"]}}},
        {"name": "my.module:Loss", "space": {"beta": {"low": 1, "high": 100, "log": True}}},
        {"name": "focal", "hyperparameters": {"gamma": 2}},
    )
    space = SearchSpace(sweep.losses).branches
    assert space["mbls"] == {**search_space("mbls"), "lam": FloatDistribution(0.5, 2.0)}
    assert space["r_aurc"]["confidence"] == CategoricalDistribution(("margin",))
    assert space["my.module:Loss"] == {"beta": FloatDistribution(1.0, 100.0, log=True)}
    assert space["focal"] == {}


@pytest.mark.parametrize(
    ("loss", "expected"),
    [
        ("focal", [{"gamma": g} for g in (3.0, 1.0, 2.0, 5.0)]),
        (
            {"name": "focal", "space": {"gamma": {"low": 2, "high": 4}}},
            [{"gamma": 3.0}, {"gamma": 2.0}],
        ),
        ({"name": "focal", "space": {"gamma": {"choices": [1, 9]}}}, [{"gamma": 1.0}]),
        ({"name": "focal", "hyperparameters": {"gamma": 7}}, [{"gamma": 7}]),
        ({"name": "mbls", "hyperparameters": {"margin": 6}}, [{"margin": 6, "lam": 0.1}]),
        # Nothing is published, so the middle of the ranges, on their scales.
        ({"name": "mbls", "hyperparameters": {"margin": 7}}, [{"margin": 7, "lam": 0.1}]),
        (
            {"name": "r_aurc", "space": {"confidence": {"choices": ["margin"]}}},
            [{"lam": 0.5, "epsilon": e, "confidence": "margin"} for e in (0.05, 0.01)],
        ),
        ("brier", [{}]),
        ("cross_entropy", []),  # the baseline has no hyperparameters
        ("my.module:Loss", [{}]),
        ({"name": "my.module:Loss", "space": {"beta": {"low": 0, "high": 1}}}, [{"beta": 0.5}]),
    ],
)
def test_published_settings_within_the_ranges_follow_the_baseline(
    loss: Any, expected: list[dict[str, Any]]
) -> None:
    sweep = searching(loss)
    name = sweep.losses[0].name
    assert SearchSpace(sweep.losses).initial_settings(10) == [
        BASELINE,
        *(Setting(name, values) for values in expected),
    ]


def test_a_range_of_an_integer_hyperparameter_has_whole_numbers() -> None:
    given = {"low": 5, "high": 20}
    space = SearchSpace(
        searching({"name": "cals_alm", "space": {"period": given, "lam": given}}).losses
    ).branches
    assert space["cals_alm"]["period"] == IntDistribution(5, 20)
    assert space["cals_alm"]["lam"] == FloatDistribution(5.0, 20.0)


def test_losses_take_turns() -> None:
    first = [
        s.loss for s in SearchSpace(searching("focal", "mbls", "brier").losses).initial_settings(10)
    ]
    assert first == [
        *("cross_entropy", "focal", "mbls", "brier"),
        *("focal", "mbls", "focal", "focal"),
    ]


def test_what_is_published_for_this_number_of_classes_comes_first() -> None:
    space = SearchSpace(searching("r_aurc").losses)
    few, many = (space.initial_settings(k)[1].hyperparameters["epsilon"] for k in (10, 100))
    assert (few, many) == (0.05, 0.01)


@pytest.mark.parametrize("loss", available_search_spaces())
def test_every_published_setting_is_one_that_optuna_could_suggest(loss: str) -> None:
    sweep = searching(loss)
    if loss not in ("refinement", "supcon"):  # they train only an encoder
        check_sweep(sweep)
    space = SearchSpace(sweep.losses)
    for values in published_settings(loss, 10):
        setting = Setting(loss, values)
        known = space.optuna_parameters(setting)
        if not search_space(loss):
            assert known is None
            continue
        assert known is not None
        fixed: Any = optuna.trial.FixedTrial(known)
        assert space.suggest(fixed) == setting


@given(number=st.integers(0, 10**6))
def test_a_suggestion_has_the_chosen_losses_hyperparameters_and_no_others(number: int) -> None:
    sweep = searching(
        "focal", {"name": "mbls", "hyperparameters": {"margin": 5.0}}, "r_aurc", "brier"
    )
    space = SearchSpace(sweep.losses)
    setting = SweepStudy(Plan(sweep)).suggest(number)
    loss, values = setting.loss, setting.hyperparameters
    wanted = {
        "focal": {"gamma"},
        "mbls": {"margin", "lam"},
        "r_aurc": {"lam", "epsilon", "confidence"},
    }
    assert values.keys() == wanted[loss]
    assert values.get("margin", 5.0) == 5.0
    known = space.optuna_parameters(setting)
    assert known is not None
    assert set(known) == {"loss"} | {f"{loss}.{name}" for name in wanted[loss] - {"margin"}}


THREE = {"name": "focal", "space": {"gamma": {"choices": [1.0, 2.0, 7.0]}}}


@pytest.mark.parametrize(
    ("losses", "trials"),
    [
        (["brier", {"name": "focal", "hyperparameters": {"gamma": 1.0}}], 3),
        (["brier", "focal"], 50),
        ([THREE], 4),
        ([THREE, "cross_entropy", "brier"], 5),
        ([{"name": "focal", "space": {"gamma": {"low": 2.0, "high": 2.0}}}], 2),
        ([{"name": "cals_alm", "space": {"period": {"low": 3, "high": 8}}}], 50),
    ],
)
def test_there_are_no_more_trials_than_settings(losses: list[Any], trials: int) -> None:
    sweep = searching(*losses, trials=50)
    space = SearchSpace(sweep.losses)
    assert space.most_trials(50, space.initial_settings(10)) == trials


@pytest.mark.parametrize("sampler", ["tpe", "random"])
def test_no_setting_is_suggested_twice(sampler: str) -> None:
    whole = {"name": "r_aurc", "space": {"confidence": {"choices": ["margin"]}}}
    whole["hyperparameters"] = {"lam": 0.5, "epsilon": 0.1}
    sweep = searching(THREE, whole, "inverse_focal", sampler=sampler)
    study = study_of(sweep)
    seen = set()
    for number in range(40):
        assert not study.exhausted
        setting = study.suggest(number)
        seen.add(setting)
        study.observe(trial(number, setting.loss, setting.hyperparameters))
    assert len(seen) == 40


def study_of(sweep: SweepFile) -> SweepStudy:
    return SweepStudy(Plan(sweep))


def record(number: int, setting: Setting, **values: Any) -> TrialRecord:
    role: Role = "baseline" if number == 0 else "search"
    metrics = {"val_ece": 0.05, **values}
    return trial(number, setting.loss, setting.hyperparameters, role=role, epochs=3, **metrics)


@pytest.mark.parametrize("sampler", ["tpe", "random"])
def test_suggestions_repeat_by_seed_and_differ_by_number(sampler: str) -> None:
    def draw(seed: int, number: int) -> Setting:
        return study_of(searching("focal", seed=seed, sampler=sampler)).suggest(number)

    assert draw(0, 5) == draw(0, 5)
    assert draw(0, 5) != draw(0, 6)
    assert draw(0, 5) != draw(1, 5)


@pytest.mark.parametrize("losses", [("focal", "mbls", "mdca"), ("mdca",)])
def test_tpe_models_the_loss_and_then_that_losss_hyperparameters_alone(losses: Any) -> None:
    study = study_of(searching(*losses))
    study.observe(record(0, BASELINE, val_error=0.1))
    for number in range(1, 40):
        setting = study.suggest(number)
        good = setting.loss == "mdca" and setting.hyperparameters["beta"] > 5
        study.observe(record(number, setting, val_ece=0.01 if good else 0.1))
    asked = study._study.ask()
    trial = asked._cached_frozen_trial
    drawn = []
    for seed in range(20):
        sampler = tpe(seed)
        space = sampler.infer_relative_search_space(study._study, trial)
        drawn.append(sampler.sample_relative(study._study, trial, space))
    for values in drawn:
        loss = values.pop("loss", "mdca")  # TPE does not draw the only one
        assert values.keys() == {name for name in space if name.startswith(f"{loss}.")} != set()


def trials_of(study: SweepStudy) -> list[optuna.trial.FrozenTrial]:
    return study._study.get_trials()


def test_what_optuna_receives() -> None:
    sweep = searching("focal", guard=0.01)
    study = study_of(sweep)
    cases: list[tuple[dict[str, Any], optuna.trial.TrialState]] = [
        ({"val_ece": 0.03}, optuna.trial.TrialState.COMPLETE),
        ({"state": "stopped", "val_ece": 0.001}, optuna.trial.TrialState.PRUNED),
        ({"state": "failed"}, optuna.trial.TrialState.FAIL),
        ({"val_ece": float("nan")}, optuna.trial.TrialState.FAIL),
        ({"val_ece": 0.0, "val_error": 0.9}, optuna.trial.TrialState.COMPLETE),
    ]
    study.adopt(0, BASELINE)  # not in any branch of the space
    settings = [study.suggest(number) for number in range(1, len(cases) + 1)]
    for number, (values, _) in enumerate(cases, start=1):
        study.observe(record(number, settings[number - 1], **values))
    # The guard is unknown before the baseline has finished.
    assert {each.state for each in trials_of(study)} == {optuna.trial.TrialState.RUNNING}
    study.observe(record(0, BASELINE, val_error=0.1))
    assert [each.state for each in trials_of(study)] == [state for _, state in cases]
    finished, stopped, *_, degenerate = trials_of(study)
    assert finished.value == 0.03
    assert stopped.intermediate_values == {3: 0.001}
    assert finished.params["focal.gamma"] == settings[0].hyperparameters["gamma"]
    assert study._study.best_trial.number == finished.number, degenerate


def test_constraints_reach_optuna() -> None:
    given = {"val_nll": 0.3, "val_auroc": {"below_baseline": 0.01}}
    study = study_of(searching("focal", guard=0.01, constraints=given))
    study.adopt(0, BASELINE)
    settings = [study.suggest(number) for number in range(1, 5)]
    study.observe(record(0, BASELINE, val_auroc=0.95))
    values: list[dict[str, Any]] = [
        {"val_ece": 0.03, "val_nll": 0.2, "val_auroc": 0.945},
        {"val_ece": 0.01, "val_nll": 0.5, "val_auroc": 0.96},
        {"val_ece": 0.02, "val_nll": 0.2, "val_auroc": 0.9},
        {"val_ece": 0.02, "val_nll": 0.4, "state": "stopped"},  # known at a rung
    ]
    for number, each in enumerate(values, start=1):
        study.observe(record(number, settings[number - 1], **each))
    constraints = [each.constraints for each in trials_of(study)]
    assert constraints == [
        pytest.approx({"guard": -0.01, "val_nll": -0.1, "val_auroc": -0.005}),
        pytest.approx({"guard": -0.01, "val_nll": 0.2, "val_auroc": -0.02}),
        pytest.approx({"guard": -0.01, "val_nll": -0.1, "val_auroc": 0.04}),
        pytest.approx({"guard": -0.01, "val_nll": 0.1}),
    ]
    assert study._study.best_trial.value == 0.03


@pytest.mark.parametrize("sampler", ["tpe", "random"])
def test_optuna_receives_all_objectives(sampler: str) -> None:
    sweep = searching("focal", guard=0.01, objective=["val_ece", "val_nll"], sampler=sampler)
    study = study_of(sweep)
    study.adopt(0, BASELINE)
    study.observe(record(0, BASELINE))
    values: list[dict[str, Any]] = [
        {"val_ece": 0.03, "val_nll": 0.2},
        {"val_ece": 0.01, "val_nll": 0.1, "state": "stopped"},
        {"val_ece": 0.03, "val_nll": float("nan")},
    ]
    for number in range(1, 15):
        outcome = values[(number - 1) % 3]
        study.observe(record(number, study.suggest(number), **outcome))
    finished, stopped, unknown = trials_of(study)[:3]
    assert (finished.values, finished.state) == ([0.03, 0.2], optuna.trial.TrialState.COMPLETE)
    assert stopped.values == [0.01, 0.1]
    assert stopped.constraints["stopped"] > 0  # its early values do not count as final ones
    assert unknown.state == optuna.trial.TrialState.FAIL
    assert all(trial.values == [0.03, 0.2] for trial in study._study.best_trials)


def test_without_a_baseline_optuna_still_learns_of_a_constant_classifier() -> None:
    study = study_of(searching("focal", guard=0.01))
    settings = [study.suggest(number) for number in range(1, 4)]
    study.observe(record(0, BASELINE, state="failed"))
    study.observe(record(1, settings[0], val_ece=0.03, val_error=0.1))
    study.observe(record(2, settings[1], val_ece=0.0, val_error=0.9))
    study.observe(record(3, settings[2], val_ece=0.04, val_error=0.05))
    assert [each.constraints["guard"] for each in trials_of(study)] == pytest.approx(
        [-0.01, 0.79, -0.01]
    )
    assert study._study.best_trial.value == 0.03


def test_optunas_warning_about_group_and_no_other_is_kept_from_the_user() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        study_of(searching("focal")).suggest(1)
        warnings.warn("another", ExperimentalWarning, stacklevel=1)
    assert [str(warning.message) for warning in caught] == ["another"]


def test_a_setting_that_was_not_suggested_is_known_to_optuna_all_the_same() -> None:
    study = study_of(searching("focal"))
    study.adopt(0, Setting("focal", {"gamma": 3.0}))
    study.adopt(1, Setting("focal", {"gamma": 99.0}))  # a range was widened before a resume
    assert [each.params for each in trials_of(study)] == [{"loss": "focal", "focal.gamma": 3.0}]


def test_ranges_and_fixed_values_of_the_user_come_first() -> None:
    sweep = searching(
        {"name": "dual_focal", "space": {"gamma": {"low": 4.0, "high": 5.0}}},
        {"name": "mbls", "hyperparameters": {"lam": 0.1}},
    )
    dual_focal, mbls = (loss_space(section) for section in sweep.losses)
    assert (dual_focal["gamma"].low, dual_focal["gamma"].high) == (4.0, 5.0)  # type: ignore[attr-defined]
    assert list(mbls) == ["margin"]
    space = SearchSpace(sweep.losses)
    settings = space.initial_settings(10)
    assert settings[0] == BASELINE
    assert settings.count(BASELINE) == 1
    gammas = [s.hyperparameters["gamma"] for s in settings if s.loss == "dual_focal"]
    assert gammas and all(4 <= gamma <= 5 for gamma in gammas)
    assert all(s.hyperparameters["lam"] == 0.1 for s in settings if s.loss == "mbls")
    assert space.optuna_parameters(BASELINE) is None
    assert space.optuna_parameters(Setting("dual_focal", {"gamma": 9.0})) is None
    known = space.optuna_parameters(Setting("mbls", {"margin": 6.0, "lam": 0.1}))
    assert known == {"loss": "mbls", "mbls.margin": 6.0}
