"""Schedulers of Syne Tune on recorded trials, called like its tuner calls them.

Syne Tune is not a dependency of calsweep: use ``uv run --with 'syne-tune==0.16.*' python -m ...``.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    IntDistribution,
)
from syne_tune import config_space
from syne_tune.backend.trial_status import Trial
from syne_tune.optimizer.baselines import ASHA
from syne_tune.optimizer.scheduler import SchedulerDecision

from benchmarks.tabular.curves import Curves
from benchmarks.tabular.selected import Selected
from sweeps.search.space import SearchSpace
from sweeps.sweep_file.schema import SweepFile
from trainables.contract.setting import Setting


@dataclass(frozen=True)
class SyneTuneASHA:
    """A search by Syne Tune's ASHA with its defaults: epoch 1, factor 3.

    The best setting has the lowest value after any epoch, as in ``best_config``. It is evaluated
    after its last epoch, as if trained to the end, which is not counted. Syne Tune has no
    conditional spaces: the hyperparameters of all losses are drawn, and those of one are used.

    Attributes:
        metric: The metric that is minimised.
    """

    metric: str

    def __call__(
        self, sweep: SweepFile, curves: Curves, num_classes: int, seeds: Sequence[int]
    ) -> Selected:
        """Replay it; of ``seeds`` the first is used."""
        np.random.seed(sweep.search.seed)  # noqa: NPY002 - its random searcher draws from there
        space = SearchSpace(sweep.losses)
        scheduler = ASHA(
            _config_space(space),
            metric=self.metric,
            time_attr="epoch",
            max_t=sweep.training.epochs,
            random_seed=sweep.search.seed,
        )
        found: list[tuple[float, Setting, float]] = []
        epochs = 0
        for number in range(sweep.search.trials):
            suggestion = scheduler.suggest()
            trial = Trial(number, suggestion.config, dt.datetime.now(dt.UTC))
            scheduler.on_trial_add(trial)
            setting = _setting(space, suggestion.config)
            for entry in curves.history(setting, seeds[0]):
                epochs += 1
                found.append((entry[self.metric], setting, entry["val_ece"]))
                result = {self.metric: entry[self.metric], "epoch": int(entry["epoch"])}
                if scheduler.on_trial_result(trial, result) == SchedulerDecision.STOP:
                    scheduler.on_trial_remove(trial)
                    break
            else:
                scheduler.on_trial_error(trial)  # it diverged; after the last epoch all stop
        known = [each for each in found if math.isfinite(each[0])]
        _, setting, promised = min(known, key=lambda each: each[0])
        return Selected(curves.nearest(setting), sweep.training.epochs, promised, epochs)


def _config_space(space: SearchSpace) -> dict[str, Any]:
    domains: dict[str, Any] = {"loss": config_space.choice(space.searched_losses)}
    for loss in space.searched_losses:
        for name, distribution in space.branches[loss].items():
            domains[f"{loss}.{name}"] = _domain(distribution)
    return domains


def _domain(distribution: BaseDistribution) -> Any:
    if isinstance(distribution, CategoricalDistribution):
        return config_space.choice(list(distribution.choices))
    low, high, log = (getattr(distribution, name) for name in ("low", "high", "log"))
    if isinstance(distribution, IntDistribution):
        return (config_space.lograndint if log else config_space.randint)(low, high)
    return (config_space.loguniform if log else config_space.uniform)(low, high)


def _setting(space: SearchSpace, config: dict[str, Any]) -> Setting:
    loss = config["loss"]
    values = {name: config[f"{loss}.{name}"] for name in space.branches[loss]}
    return Setting(loss, values | space.fixed[loss])
