"""Samplers of settings: functions of a seed that return an Optuna sampler.

Each suggestion creates a new sampler, which must learn from the study.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable

from optuna import Study
from optuna.distributions import BaseDistribution
from optuna.exceptions import ExperimentalWarning
from optuna.samplers import BaseSampler, RandomSampler, TPESampler
from optuna.trial import FrozenTrial

from sweeps.sweep_file.sections.search import GUIDED


class _OneLoss(TPESampler):
    """Draws the loss, then only the hyperparameters of that loss; TPE itself draws all.

    The search space lacks the loss if there is only one, as TPE omits what has one value.
    """

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, object]:
        if "loss" not in search_space:
            return super().sample_relative(study, trial, search_space)
        own = {name: d for name, d in search_space.items() if name == "loss"}
        drawn = super().sample_relative(study, trial, own)
        if "loss" in drawn:
            prefix = f"{drawn['loss']}."
            own = {name: d for name, d in search_space.items() if name.startswith(prefix)}
            drawn |= super().sample_relative(study, trial, own)
        return drawn


def tpe(seed: int) -> BaseSampler:
    """Tree-structured Parzen estimator, over all hyperparameters of a loss together."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Argument ``group``", ExperimentalWarning)
        return _OneLoss(seed=seed, multivariate=True, group=True)


def random(seed: int) -> BaseSampler:
    """Independent uniform draws; for ranges with ``log: true``, of the logarithm."""
    return RandomSampler(seed=seed)


SAMPLERS: dict[str, Callable[[int], BaseSampler]] = {
    GUIDED: tpe,  # used for objectives that no temperature affects, and for very long searches
    "tpe": tpe,
    "random": random,
}
