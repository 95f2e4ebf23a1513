"""``calsweep best``: the best hyperparameters per dataset and model, over all sweeps in MLflow."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sweeps.results.columns import objective_metric
from sweeps.search.ranking import Candidate, Ranking
from sweeps.search.record import TrialRecord
from sweeps.sweep_file.schema import Rule

_METRICS = ("error", "ece", "nll", "brier", "adaptive_ece", "classwise_ece", "auroc", "aurc")


@dataclass(frozen=True)
class TrackedSweep:
    """The trials of one sweep, as MLflow has them.

    Attributes:
        name: The sweep's name.
        dataset: Name of the dataset.
        model: Name of the model.
        objective: What it minimised.
        guard: Its tolerance of validation error.
        records: Its trials, with the metrics of their last epoch as only history. Of a long sweep
            those are left out that cannot change what is chosen.
        run_ids: MLflow's id of each trial, by number.
        parent_id: MLflow's id of the sweep's own run.
    """

    name: str
    dataset: str
    model: str
    objective: str
    guard: float
    records: list[TrialRecord]
    run_ids: dict[int, str]
    parent_id: str


def best_settings(sweeps: Sequence[TrackedSweep]) -> list[dict[str, Any]]:
    """The chosen setting of each dataset and model.

    Each sweep chooses by its own rule, against its own baseline; among the sweeps of one dataset
    and model, a setting judged by more new seeds comes first, then the lower objective.

    Args:
        sweeps: What MLflow has.

    Returns:
        One entry per dataset and model: ``dataset``, ``model``, ``sweep``, ``loss``,
        ``hyperparameters``, ``seed`` and ``run_id`` (of the search's trial), ``seeds`` (new seeds
        it was judged by), ``objective``, ``val`` and ``test`` (means over them, with ``ece_low``
        and ``ece_high``, and ``ece_scaled``), ``temperature``.
    """
    found: dict[tuple[str, str], tuple[TrackedSweep, Candidate]] = {}
    for sweep in sweeps:
        chosen = Ranking(sweep.records, Rule(sweep.objective, sweep.guard)).chosen
        if chosen is None:
            continue
        key = (sweep.dataset, sweep.model)
        if key not in found or _rank(chosen) < _rank(found[key][1]):
            found[key] = (sweep, chosen)
    return [_entry(*found[key]) for key in sorted(found)]


def as_sweep_file(entry: dict[str, Any], resolved: dict[str, Any]) -> dict[str, Any]:
    """A sweep file that trains just one setting, with the recipe of the sweep that found it.

    Args:
        entry: Of :func:`best_settings`.
        resolved: That sweep's resolved sweep file.
    """
    return {
        "name": f"{resolved['name'][:95]}-best",  # names have at most 100 characters
        **{key: resolved[key] for key in ("dataset", "model")},
        "losses": [{"name": entry["loss"], "hyperparameters": entry["hyperparameters"]}],
        **{key: resolved[key] for key in ("encoder", "training") if key in resolved},
        "search": {
            **resolved["search"],
            "trials": 1 if entry["loss"] == "cross_entropy" else 2,
            "warm_start": [],  # there is nothing to search
        },
        "scheduler": {"name": "none"},
        "scaling": resolved["scaling"],
        "tracking": resolved["tracking"],
        "selection": {"finalists": 0, "seeds": 0},
    }


def _rank(candidate: Candidate) -> tuple[float, float]:
    return -candidate.seeds, candidate.objective


def _entry(sweep: TrackedSweep, chosen: Candidate) -> dict[str, Any]:
    trial = chosen.trials[0]
    metric = objective_metric(sweep.objective)
    return {
        "dataset": sweep.dataset,
        "model": sweep.model,
        "sweep": sweep.name,
        "objective": sweep.objective,
        "loss": chosen.loss,
        "hyperparameters": trial.hyperparameters,
        "seed": trial.seed,
        "run_id": sweep.run_ids[trial.number],
        "seeds": chosen.seeds,
        "val": _split(chosen, "val", metric),
        "test": _split(chosen, "test", metric),
        "temperature": chosen.mean("temperature"),
        "parent_run_id": sweep.parent_id,
    }


def _split(chosen: Candidate, split: str, metric: str) -> dict[str, float]:
    """A split's metrics, with interval and value after scaling of ECE, NLL and ``metric``."""
    shown = dict.fromkeys((*_METRICS, metric))
    more = [f"{m}_{end}" for m in ("ece", "nll", metric) for end in ("low", "high", "scaled")]
    values = {name: chosen.mean(f"{split}_{name}") for name in (*shown, *more)}
    return {name: value for name, value in values.items() if not math.isnan(value)}
