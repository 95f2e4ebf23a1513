"""The plan of a sweep file as plain data, for other programs."""

from __future__ import annotations

from typing import Any

from optuna.distributions import CategoricalDistribution

from search_spaces import Distribution
from sweeps.search.plan import Plan


def plan_numbers(plan: Plan) -> dict[str, Any]:
    """What a sweep would do; docs/json.md explains the keys.

    While data and model, on which they depend, are not read, numbers of epochs are None.
    """
    sweep, scaling = plan.sweep, plan.sweep.scaling
    is_known = sweep.trainable is not None or "epochs" in sweep.training.model_fields_set
    return {
        "sweep": sweep.name,
        "dataset": sweep.dataset.label,
        "model": sweep.model.name if sweep.trainable is None else None,
        "settings": plan.settings,
        "again": plan.again,
        "epochs": plan.epochs if is_known else None,
        "total_epochs": plan.most_epochs if is_known else None,
        "objectives": plan.rule.objectives,
        "guard": plan.search.guard,
        "workers": scaling.num_workers,
        "cpus_per_worker": scaling.cpus_per_worker,
        "gpus_per_worker": scaling.gpus_per_worker,
        "space": {
            loss: {name: _values(distribution) for name, distribution in branch.items()}
            for loss, branch in plan.space.branches.items()
        },
    }


def _values(distribution: Distribution) -> dict[str, object]:
    """The bounds of a hyperparameter, or its choices."""
    if isinstance(distribution, CategoricalDistribution):
        return {"low": None, "high": None, "log": False, "choices": distribution.choices}
    low, high = distribution.low, distribution.high
    return {"low": low, "high": high, "log": distribution.log, "choices": None}
