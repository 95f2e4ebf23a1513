"""Samplers that are no part of calsweep: the loss by a bandit, then what is searched of that loss.

Tried on recorded trials first. Within a loss any sampler of Optuna's serves, also those that see
only hyperparameters which all trials have: it is shown a study of that loss's trials alone.
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
    """The loss with the lowest mean, as drawn from what is known of the means (Thompson 1933).

    Normal, by the spread of all values about their losses' means; of a loss of which nothing is
    known about as wide as all values are. A value that breaks a limit counts as the worst of all.
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
    """Of the better half of the losses, by their best trials, the one with the fewest trials.

    Successive elimination by what has been seen, one none of whose trials ran to its end being in
    it still; of equals one is drawn.
    """
    best = {
        loss: min((v for v in each if not math.isnan(v)), default=-math.inf)
        for loss, each in values.items()
    }
    half = sorted(best, key=lambda loss: (best[loss], draw.random()))[: math.ceil(len(best) / 2)]
    return min(half, key=lambda loss: (len(values[loss]), draw.random()))


class LossFirst(BaseSampler):
    """Chooses the loss by a bandit, then its hyperparameters by what its own trials say.

    Args:
        seed: Of all draws.
        bandit: Chooses the loss.
        within: Makes of a seed the sampler of a loss's hyperparameters.
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
        """All that any trial has."""
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
        """At random."""
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
