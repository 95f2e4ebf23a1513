"""The plan of a sweep file as numbers, for other programs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from optuna.distributions import CategoricalDistribution

from search_spaces import Distribution
from sweeps.search.plan import Plan


@dataclass(frozen=True)
class Range:
    """The values of a hyperparameter: its choices, or two bounds."""

    low: float | None = None
    high: float | None = None
    log: bool = False
    choices: tuple[Any, ...] | None = None


@dataclass(frozen=True)
class PlanNumbers:
    """What a sweep would do.

    Attributes:
        settings: Number of settings that the search tries at most.
        again: Number of trials with fresh seeds that follow, at most.
        epochs: Of a trial, at most; None while data and model, on which they depend, are not read.
        total_epochs: Of all trials, at most; None likewise.
        gpus_per_worker: ``auto`` until the sweep starts.
        space: Loss → hyperparameter → its values.
    """

    sweep: str
    dataset: str
    model: str | None
    settings: int
    again: int
    epochs: int | None
    total_epochs: int | None
    objectives: tuple[str, ...]
    guard: float
    workers: int
    cpus_per_worker: int
    gpus_per_worker: float | str
    space: dict[str, dict[str, Range]]


def plan_numbers(plan: Plan) -> PlanNumbers:
    sweep, scaling = plan.sweep, plan.sweep.scaling
    is_known = sweep.trainable is not None or "epochs" in sweep.training.model_fields_set
    return PlanNumbers(
        sweep=sweep.name,
        dataset=sweep.dataset.label,
        model=sweep.model.name if sweep.trainable is None else None,
        settings=plan.settings,
        again=plan.again,
        epochs=plan.epochs if is_known else None,
        total_epochs=plan.most_epochs if is_known else None,
        objectives=tuple(plan.rule.objectives),
        guard=plan.search.guard,
        workers=scaling.num_workers,
        cpus_per_worker=scaling.cpus_per_worker,
        gpus_per_worker=scaling.gpus_per_worker,
        space={
            loss: {name: _range(distribution) for name, distribution in branch.items()}
            for loss, branch in plan.space.branches.items()
        },
    )


def _range(distribution: Distribution) -> Range:
    if isinstance(distribution, CategoricalDistribution):
        return Range(choices=tuple(distribution.choices))
    return Range(distribution.low, distribution.high, distribution.log)
