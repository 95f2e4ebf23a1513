"""Hyperparameter importances, if there are enough trials."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from sweeps.search.plan import Plan
from sweeps.search.record import TrialRecord

if TYPE_CHECKING:
    from sweeps.search.space import SearchSpace

_FEWEST: Final = 20
"""Optuna asks for at least 5 trials within the target quantile: a quarter of 20."""


def finished_searches(records: Iterable[TrialRecord], objective: str) -> list[TrialRecord]:
    """The completed trials; ECE early in training says nothing about hyperparameters."""
    return [r for r in records if r.state == "finished" and r.searched and objective in r.outcome]


def importances(records: Iterable[TrialRecord], plan: Plan) -> dict[str, dict[str, float]]:
    """Importance of each hyperparameter for being among the best quarter of a loss's trials.

    Computed by PED-ANOVA (Watanabe et al. 2023). Returns loss → hyperparameter → share, the largest
    first; shares sum to 1. Losses with fewer than 20 finished trials, or with a single searched
    hyperparameter, are omitted.
    """
    objective = plan.rule.objective
    usable = finished_searches(records, objective)
    if max(Counter(record.loss for record in usable).values(), default=0) < _FEWEST:
        return {}
    try:
        space = plan.space
    except ValueError:  # a custom loss may have changed
        return {}
    found = {}
    for loss, branch in space.branches.items():
        own = [r for r in usable if r.loss == loss and space.contains(r.setting)]
        if len(branch) > 1 and len(own) >= _FEWEST:
            found[loss] = _of_loss(own, space, loss, objective)
    return found


def _of_loss(
    records: list[TrialRecord], space: SearchSpace, loss: str, objective: str
) -> dict[str, float]:
    import optuna
    from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    branch = space.branches[loss]
    study = optuna.create_study(direction="minimize")
    for record in records:
        study.add_trial(
            optuna.trial.create_trial(
                params={name: record.hyperparameters[name] for name in branch},
                distributions={**branch},
                value=record.outcome[objective],
            )
        )
    evaluator = PedAnovaImportanceEvaluator(target_quantile=0.25)
    return get_param_importances(study, evaluator=evaluator)
