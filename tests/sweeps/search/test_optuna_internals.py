"""The trials that the sampler sees, with few and many trials."""

import random

import optuna
import pytest
from optuna.distributions import FloatDistribution
from optuna.samplers import RandomSampler, TPESampler
from optuna.samplers._tpe.sampler import _split_trials
from optuna.trial import FrozenTrial, TrialState

from sweeps.search.optuna_internals import BEST, LATEST, TrialWindow


def fill(study: optuna.Study, count: int) -> None:
    """Trials that finished, exceed the guard, were stopped or failed, and a running one."""
    draw = random.Random(0)
    study.sampler = RandomSampler(seed=0)
    for _ in range(count):
        trial = study.ask({"gamma": FloatDistribution(0, 10)})
        trial.set_constraint("guard", draw.choice([-1.0, -1.0, draw.random()]))
        kind = draw.choice(["complete", "complete", "pruned", "failed"])
        if kind == "pruned":
            trial.report(draw.random(), draw.choice([1, 3]))
            study.tell(trial, state=TrialState.PRUNED)
        elif kind == "failed":
            study.tell(trial, state=TrialState.FAIL)
        else:
            study.tell(trial, draw.random())
    study.ask({"gamma": FloatDistribution(0, 10)})


def pair(count: int) -> tuple[optuna.Study, optuna.Study]:
    """The same trials in Optuna's in-memory storage and in a window."""
    studies = optuna.create_study(), optuna.create_study(storage=TrialWindow())
    for study in studies:
        fill(study, count)
    return studies


def shown(study: optuna.Study) -> list[FrozenTrial]:
    states = (TrialState.COMPLETE, TrialState.PRUNED, TrialState.RUNNING)
    return study.get_trials(deepcopy=False, states=states)


def test_with_few_trials_the_sampler_gets_all() -> None:
    whole, window = pair(LATEST)
    assert [t.number for t in shown(window)] == [t.number for t in shown(whole)]
    suggested = []
    for study in (whole, window):
        study.sampler = TPESampler(seed=1, multivariate=True)
        suggested.append(study.ask({"gamma": FloatDistribution(0, 10)}).params)
    assert suggested[0] == suggested[1]


@pytest.mark.parametrize("count", [700, pytest.param(2000, marks=pytest.mark.slow)])
def test_with_many_trials_tpe_gets_the_same_best_ones(count: int) -> None:
    whole, window = pair(count)
    assert len(shown(window)) <= LATEST + BEST + 1
    best, others = _split_trials(window, shown(window), BEST)
    best_of_all, _ = _split_trials(whole, shown(whole), BEST)
    assert [t.number for t in best] == [t.number for t in best_of_all]
    assert others[-1].state == TrialState.RUNNING


def test_all_trials_are_kept() -> None:
    _, window = pair(700)
    assert len(window.trials) == 701
