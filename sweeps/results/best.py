"""``calsweep best``: the best hyperparameters per dataset and model, over all sweeps."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, get_args

from sweeps.formatting import finite
from sweeps.results.columns import objective_metric
from sweeps.results.leaderboard import front_rows
from sweeps.search.ranking import Candidate, Ranking
from sweeps.search.record import TrialRecord
from sweeps.search.rules import Limit, Rule
from sweeps.sweep_file.schema import SweepFile
from trainables.contract.metric_names import MetricName, SplitName, Statistic
from trainables.files.digests import digest_of

_METRICS = ("error", "ece", "nll", "brier", "adaptive_ece", "classwise_ece", "auroc", "aurc")

DIGITS = 6  # of a digest, to distinguish data


@dataclass(frozen=True)
class TrackedSweep:
    """The trials of one sweep, as MLflow or the sweep store has them.

    Attributes:
        name: The sweep's name.
        dataset: What the dataset is called.
        data: What distinguishes its data from others with the same name: their digest, or of a
        sweep
            from before that was kept, a digest of what it said of them.
        model: What the model is called.
        model_options: Its options, ``,width=8``.
        objective: What it minimised.
        guard: Its tolerance of validation error.
        constraints: What other metrics must keep to.
        others: What it minimised besides.
        candidates: How many settings it selected from, those of earlier sweeps on the same data
            included; None where that is not known.
        verdict: Whether its choice beats cross-entropy with a temperature; None before its end, or
            where that could not be asked.
        records: Its trials. Of MLflow they have the metrics of their last epoch as only history,
            and of a long sweep those are left out that cannot change what is chosen.
        run_ids: MLflow's id of each trial that it is known of, by number.
        parent_id: MLflow's id of the sweep's own run; None where it is not known.
    """

    name: str
    dataset: str
    data: str
    model: str
    model_options: str
    objective: str
    guard: float
    verdict: str | None
    records: list[TrialRecord]
    run_ids: dict[int, str]
    parent_id: str | None
    constraints: tuple[Limit, ...] = ()
    others: tuple[str, ...] = ()
    candidates: int | None = None

    @property
    def rule(self) -> Rule:
        """What it chose by."""
        return Rule(self.objective, self.guard, self.constraints, self.others)

    @property
    def full_names(self) -> dict[str, str]:
        """What to call dataset and model where others have the same name."""
        return {
            "dataset": f"{self.dataset}-{self.data[:DIGITS]}",
            "model": self.model + self.model_options,
        }


def named(
    sweeps: Sequence[TrackedSweep], dataset: str | None, model: str | None
) -> list[TrackedSweep]:
    """Those on a dataset and a model of these names: where that is a full name, just these.

    Names are compared here: MLflow's filters know no way to write one with both kinds of quotes.
    """
    found = list(sweeps)
    for kind, name in (("dataset", dataset), ("model", model)):
        if name is not None:
            full = [sweep for sweep in found if sweep.full_names[kind] == name]
            found = full or [sweep for sweep in found if getattr(sweep, kind) == name]
    return found


def data_as_said(sweep: SweepFile) -> str:
    """What identifies the data of a sweep from before digests were stored."""
    said = [sweep.dataset.model_dump(mode="json"), sweep.search.seed]
    return digest_of(json.dumps(said, sort_keys=True).encode())


def data_unlike_all(sweep_id: str) -> str:
    """What identifies the data of a sweep if nothing is known about them."""
    return digest_of(sweep_id.encode())


def best_settings(sweeps: Sequence[TrackedSweep]) -> list[dict[str, Any]]:
    """The chosen setting of each dataset, model and objective.

    Each sweep chooses by its own rule, against its own baseline. Sweeps are compared only if their
    data are the same to the last sample of each split, their model has the same options and they
    have one objective; among these a setting judged by more fresh seeds comes first, then the lower
    objective.

    Args:
        sweeps: What MLflow or the store has.

    Returns:
        One entry each: ``dataset`` and ``model`` (with a part of the digest, or the options, where
        there are others of that name), ``data`` (the digest), ``sweep``, ``loss``,
        ``hyperparameters``, ``trial``, ``seed`` and ``run_id`` (of the search; MLflow's id, None
        where that is not known, as is ``parent_run_id``, the sweep's own), ``candidates`` (how many
        settings it was selected from), ``seeds`` (fresh seeds
        it was judged by), ``verdict`` (whether it beats cross-entropy with a temperature:
        supported, not supported, worse, or None), ``objective``, ``val`` and ``test`` (means over
        them, with ``ece_low`` and ``ece_high``, and ``ece_scaled``), ``temperature``; of several
        objectives ``front``, see :func:`~sweeps.results.leaderboard.front_rows`.
    """
    found: dict[tuple[object, ...], tuple[TrackedSweep, Candidate, list[dict[str, Any]]]] = {}
    for sweep in sweeps:
        ranking = Ranking(sweep.records, sweep.rule)
        chosen = ranking.chosen
        if chosen is None:
            continue
        key = (sweep.data, sweep.model, sweep.model_options, sweep.rule.objectives)
        if key not in found or _rank(chosen) < _rank(found[key][1]):
            found[key] = (sweep, chosen, front_rows(ranking))
    ambiguous = _ambiguous_names([sweep for sweep, *_ in found.values()])
    entries = [_entry(*each, ambiguous) for each in found.values()]
    return sorted(entries, key=lambda entry: (entry["dataset"], entry["model"], entry["objective"]))


def as_sweep_file(entry: dict[str, Any], resolved: dict[str, Any]) -> dict[str, Any]:
    """A sweep file that trains just one setting, with the recipe of the sweep that found it.

    It records how many settings this one was selected from, and on which data: on the same data the
    new sweep's verdict is corrected for them.

    Args:
        entry: Of :func:`best_settings`.
        resolved: That sweep's resolved sweep file.
    """
    origin = {}
    if "data" in entry:
        known = {"candidates": entry["candidates"], "data": entry["data"]}
        origin["selected_from"] = known
    return {
        "name": f"{resolved['name'][:95]}-best",  # names have at most 100 characters
        **{key: resolved[key] for key in ("dataset", "model", "trainable") if key in resolved},
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
        "selection": {"finalists": 0, "seeds": 0, **origin},
    }


def _rank(candidate: Candidate) -> tuple[float, float]:
    return -candidate.seeds, candidate.objective


def _ambiguous_names(sweeps: Sequence[TrackedSweep]) -> set[str]:
    """Ambiguous names of datasets or models."""
    full: dict[tuple[str, str], set[str]] = {}
    for sweep in sweeps:
        for kind, name in (("dataset", sweep.dataset), ("model", sweep.model)):
            full.setdefault((kind, name), set()).add(sweep.full_names[kind])
    return {name for (_, name), names in full.items() if len(names) > 1}


def _entry(
    sweep: TrackedSweep, chosen: Candidate, front: list[dict[str, Any]], ambiguous: set[str]
) -> dict[str, Any]:
    trial = chosen.trials[0]
    metric = objective_metric(sweep.objective)
    full = sweep.full_names
    return {
        "dataset": full["dataset"] if sweep.dataset in ambiguous else sweep.dataset,
        "data": sweep.data,
        "model": full["model"] if sweep.model in ambiguous else sweep.model,
        "sweep": sweep.name,
        "objective": sweep.objective,
        "loss": chosen.loss,
        "hyperparameters": trial.hyperparameters,
        "seed": trial.seed,
        "trial": trial.number,
        "candidates": sweep.candidates or len(sweep.records),
        "run_id": sweep.run_ids.get(trial.number),
        "seeds": chosen.seeds,
        "verdict": sweep.verdict,
        "val": _split(chosen, "val", metric),
        "test": _split(chosen, "test", metric),
        "temperature": chosen.mean("temperature"),
        "parent_run_id": sweep.parent_id,
        **({"front": front} if front else {}),
    }


def _split(chosen: Candidate, split: SplitName, metric: str) -> dict[str, float]:
    """A split's metrics; with intervals, also after scaling, those of ECE, NLL and ``metric``."""
    shown = dict.fromkeys((*_METRICS, metric))
    more = (
        MetricName(name, "", scaled, statistic)
        for name in ("ece", "nll", metric)
        for scaled in (False, True)
        for statistic in get_args(Statistic)
    )
    names = (*map(MetricName, shown), *more)
    return dict(finite({str(n): chosen.mean(replace(n, split=split)) for n in names}))
