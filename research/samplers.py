"""Samplers that are not part of calsweep: a bandit selects the loss, a sampler its hyperparameters.

They are compared on recorded trials. Within a loss, any Optuna sampler can be used, even those that
require the same hyperparameters in all trials: it gets a study with only the trials of that loss.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean, pstdev
from typing import Any

import numpy as np
import optuna
from optuna import Study
from optuna.distributions import BaseDistribution, CategoricalDistribution
from optuna.samplers import BaseSampler, RandomSampler
from optuna.trial import FrozenTrial, TrialState, create_trial

Values = Mapping[str, Sequence[float]]
"""By loss, its trials' objectives: nan where they were stopped, inf where they break a limit."""
Bandit = Callable[[Values, np.random.Generator], str]


def thompson(values: Values, draw: np.random.Generator) -> str:
    """Thompson sampling (1933): the loss with the lowest mean drawn from its posterior.

    The posterior is normal, with the pooled variance of values around the means of their losses.
    For a loss without values, it is about as wide as the range of all values. A value that violates
    a constraint counts as the worst of all.
    """
    known = [v for each in values.values() for v in each if math.isfinite(v)]
    if not known:
        return str(draw.choice(list(values)))
    kept = {
        loss: [min(v, max(known)) for v in each if not math.isnan(v)]
        for loss, each in values.items()
    }
    apart = [v - fmean(each) for each in kept.values() for v in each]
    within = math.sqrt(fmean(v * v for v in apart))
    drawn = {
        loss: draw.normal(fmean(each), within / math.sqrt(len(each)))
        if each
        else draw.normal(fmean(known), pstdev(known))
        for loss, each in kept.items()
    }
    return min(drawn, key=drawn.__getitem__)


def better_half(values: Values, draw: np.random.Generator) -> str:
    """The loss with the fewest trials in the better half of the losses, by their best trials.

    Successive elimination. A loss without finished trials is in the better half. Ties are broken at
    random.
    """
    best = {
        loss: min((v for v in each if not math.isnan(v)), default=-math.inf)
        for loss, each in values.items()
    }
    half = sorted(best, key=lambda loss: (best[loss], draw.random()))[: math.ceil(len(best) / 2)]
    return min(half, key=lambda loss: (len(values[loss]), draw.random()))


class LossFirst(BaseSampler):
    """Selects the loss with a bandit, then its hyperparameters with a sampler.

    Args:
        seed: Seed of all draws.
        bandit: Selects the loss.
        within: Makes the sampler of the hyperparameters of a loss from a seed.
    """

    def __init__(self, seed: int, bandit: Bandit, within: Callable[[int], BaseSampler]) -> None:
        self._seed = seed
        self._draw = np.random.default_rng(seed)
        self._bandit = bandit
        self._within = within
        self._random = RandomSampler(seed=seed)

    def infer_relative_search_space(
        self, study: Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        """All parameters that occur in any trial."""
        known = study.get_trials(deepcopy=False)
        return {name: d for each in known for name, d in each.distributions.items()}

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """The loss, and its hyperparameters unless it has no trials yet."""
        losses = search_space.get("loss")
        if not isinstance(losses, CategoricalDistribution):
            return {}
        trials = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE, TrialState.PRUNED))
        loss = self._bandit(
            {each: [_value(t) for t in _of(each, trials)] for each in map(str, losses.choices)},
            self._draw,
        )
        own = {name: d for name, d in search_space.items() if name.startswith(f"{loss}.")}
        if not own:
            return {"loss": loss}
        aside = optuna.create_study(sampler=self._within(self._seed))
        aside.add_trials([_without_loss(each) for each in _of(loss, trials)])
        return {"loss": loss, **aside.ask(own).params}

    def sample_independent(
        self,
        study: Study,
        trial: FrozenTrial,
        param_name: str,
        param_distribution: BaseDistribution,
    ) -> Any:
        """A random value."""
        return self._random.sample_independent(study, trial, param_name, param_distribution)


def _of(loss: str, trials: Sequence[FrozenTrial]) -> list[FrozenTrial]:
    return [trial for trial in trials if trial.params["loss"] == loss]


def _value(trial: FrozenTrial) -> float:
    if trial.state == TrialState.PRUNED:
        return math.nan
    assert trial.value is not None
    return trial.value if all(v <= 0 for v in trial.constraints.values()) else math.inf


def _without_loss(trial: FrozenTrial) -> FrozenTrial:
    return create_trial(
        state=trial.state,
        value=trial.value,
        params={name: value for name, value in trial.params.items() if name != "loss"},
        distributions={name: d for name, d in trial.distributions.items() if name != "loss"},
        intermediate_values=trial.intermediate_values,
        constraints=trial.constraints,
    )
