"""``calsweep best``: the best hyperparameters per dataset and model, over all sweeps."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, get_args

from sweeps.messages.formatting import finite
from sweeps.results.columns import objective_metric
from sweeps.results.documents import to_document
from sweeps.results.leaderboard import StoredFront, front_rows
from sweeps.search.ranking import Candidate, Ranking
from sweeps.search.record import TrialRecord
from sweeps.search.rules import Rule
from trainables.contract.config import OF_PILOT
from trainables.contract.metric_names import MetricName, SplitName, Statistic, groups_name
from trainables.contract.setting import Setting
from trainables.files.storage import digest_of

_METRICS = (
    *("error", "event_ece", "ece", "nll", "brier"),
    *("adaptive_ece", "classwise_ece", "auroc", "aurc"),
)

DIGITS = 6  # of a digest, in names of data


@dataclass(frozen=True)
class Advice:
    """What a sweep recommends: a setting of one network, or of several, and its name.

    ``better`` is what to say first if a reference model is better.
    """

    setting: Setting
    name: str
    better: str = ""

    @classmethod
    def from_json(cls, kept: Mapping[str, Any] | None) -> Advice | None:
        """From a :class:`~sweeps.results.recommendation.Recommendation` in a file; or None."""
        if kept is None or not {"loss", "hyperparameters", "name"} <= kept.keys():
            return None
        setting = Setting(kept["loss"], kept["hyperparameters"])
        return cls(setting, kept["name"], kept.get("better_reference", ""))


@dataclass(frozen=True)
class TrackedSweep:
    """The trials of one sweep, read from MLflow or the sweep store.

    Attributes:
        data: Digest of the data.
        model_options: Its options, ``,width=8``.
        rule: By which it selected.
        candidates: Number of settings it selected from, including those of earlier sweeps on the
            same data; None if unknown.
        verdict: Whether the selected setting beats scaled cross-entropy; None if unknown.
        recommended: What the sweep recommends; None if unknown.
        records: The sweep's trials. If they are read from MLflow, their history is the last epoch
            alone.
        run_ids: MLflow's ids of the trials' runs, by number, as far as known.
        parent_id: MLflow's id of the sweep's own run; None if unknown.
    """

    name: str
    dataset: str
    data: str
    model: str
    model_options: str
    rule: Rule
    verdict: str | None
    records: list[TrialRecord]
    run_ids: dict[int, str]
    parent_id: str | None
    candidates: int | None = None
    recommended: Advice | None = None

    @property
    def full_names(self) -> dict[str, str]:
        return {
            "dataset": f"{self.dataset}-{self.data[:DIGITS]}",
            "model": self.model + self.model_options,
        }


@dataclass(frozen=True)
class BestSetting:
    """The setting that a sweep selected, and its verdict against scaled cross-entropy.

    `value` is that of the objective, and `seeds` the number of fresh seeds.
    """

    loss: str
    hyperparameters: Mapping[str, Any]
    seeds: int
    value: float
    verdict: str | None


@dataclass(frozen=True, kw_only=True)
class BestEntry:
    """What is recommended for a dataset, a model and an objective.

    Attributes:
        dataset: Its name, with a part of the digest if the name is ambiguous.
        model: Its name, with the options if the name is ambiguous.
        data: Digest of the data.
        trial: Of the search, with its ``seed`` and MLflow's ``run_id``, if known.
        parent_run_id: Of the sweep's own run.
        candidates: Number of settings it was selected from.
        seeds: Number of fresh seeds.
        recommended: The name of what is recommended; None before the end.
        better_reference: The sentence on a reference model that is shown to be better.
        best: The selected setting.
        val: Means over the seeds, with ``ece_low``, ``ece_high``, ``ece_scaled``, and ``groups``,
            the number of groups if they are the unit of intervals; also ``test``.
        front: With several objectives, see :func:`~sweeps.results.leaderboard.front_rows`.
    """

    dataset: str
    data: str
    model: str
    sweep: str
    objective: str
    loss: str
    hyperparameters: Mapping[str, Any]
    seed: int
    trial: int
    candidates: int
    run_id: str | None
    seeds: int
    recommended: str | None
    better_reference: str | None
    best: BestSetting
    val: Mapping[str, float]
    test: Mapping[str, float]
    temperature: float
    parent_run_id: str | None
    front: StoredFront

    def to_json(self) -> dict[str, object]:
        values = to_document(self)
        return {key: value for key, value in values.items() if key != "front" or value}

    @property
    def setting(self) -> Setting:
        return Setting(self.loss, dict(self.hyperparameters))


def judged_setting(ranking: Ranking, advice: Advice | None) -> Candidate | None:
    """The setting that a sweep recommends, else the one it selected; None if there is none.

    The mean of networks of several settings is represented by the selected one.
    """
    if advice is None:
        return ranking.chosen
    known = (each for each in ranking.candidates if each.setting == advice.setting)
    return next(known, ranking.chosen)


def named(
    sweeps: Sequence[TrackedSweep], dataset: str | None, model: str | None
) -> list[TrackedSweep]:
    """The sweeps on a dataset and a model of these names; a full name matches exactly."""
    found = list(sweeps)
    for kind, name in (("dataset", dataset), ("model", model)):
        if name is not None:
            full = [sweep for sweep in found if sweep.full_names[kind] == name]
            found = full or [sweep for sweep in found if getattr(sweep, kind) == name]
    return found


def data_unlike_all(sweep_id: str) -> str:
    """A unique identification for a sweep about whose data nothing is known."""
    return digest_of(sweep_id.encode())


def best_settings(sweeps: Sequence[TrackedSweep]) -> list[BestEntry]:
    """What is recommended for each dataset, model and objective, and the best setting.

    Each sweep selects by its own rule, relative to its own baseline. Sweeps are compared only if
    they have identical splits, the same model with the same options, and the same single objective.
    A setting with fresh seeds comes first, then the one with the lower objective, to which the
    standard error over its seeds is added.
    """
    found: dict[tuple[object, ...], tuple[TrackedSweep, Candidate, Ranking]] = {}
    for sweep in sweeps:
        ranking = Ranking(sweep.records, sweep.rule)
        if (chosen := ranking.chosen) is None:
            continue
        key = (sweep.data, sweep.model, sweep.model_options, sweep.rule.objectives)
        if key not in found or _rank(chosen) < _rank(found[key][1]):
            found[key] = (sweep, chosen, ranking)
    ambiguous = _ambiguous_names([sweep for sweep, *_ in found.values()])
    entries = [_entry(*each, ambiguous) for each in found.values()]
    return sorted(entries, key=lambda entry: (entry.dataset, entry.model, entry.objective))


def as_sweep_file(
    setting: Setting, resolved: Mapping[str, Any], candidates: int = 0, data: str | None = None
) -> dict[str, object]:
    """A sweep file that trains just one setting, with the recipe of the sweep that found it.

    It records the number of `candidates` that this one was selected from, and the digest of the
    data, to correct the new sweep's verdict on the same data.
    """
    origin = {"selected_from": {"candidates": candidates, "data": data}} if data else {}
    return {
        "name": f"{resolved['name'][:95]}-best",  # names have at most 100 characters
        **{key: resolved[key] for key in ("dataset", "model", "trainable") if key in resolved},
        "losses": [{"name": setting.loss, "hyperparameters": setting.hyperparameters}],
        **{key: resolved[key] for key in ("encoder",) if key in resolved},
        "training": {**resolved.get("training", {}), **dict.fromkeys(OF_PILOT)},  # epochs are known
        "search": {
            **resolved["search"],
            "trials": 1 if setting.loss == "cross_entropy" else 2,
            "learn_from": "none",  # the only setting is fixed
        },
        "scheduler": {"name": "none"},
        "scaling": resolved["scaling"],
        "tracking": resolved["tracking"],
        "selection": {"finalists": 0, "seeds": 0, **origin},
    }


def _rank(candidate: Candidate) -> tuple[bool, tuple[float, ...]]:
    return not candidate.seeds, candidate.scores


def _ambiguous_names(sweeps: Sequence[TrackedSweep]) -> set[str]:
    full: dict[tuple[str, str], set[str]] = {}
    for sweep in sweeps:
        for kind, name in (("dataset", sweep.dataset), ("model", sweep.model)):
            full.setdefault((kind, name), set()).add(sweep.full_names[kind])
    return {name for (_, name), names in full.items() if len(names) > 1}


def _entry(
    sweep: TrackedSweep, best: Candidate, ranking: Ranking, ambiguous: set[str]
) -> BestEntry:
    chosen = judged_setting(ranking, sweep.recommended) or best
    trial = chosen.trials[0]
    metric = objective_metric(sweep.rule.objective)
    full = sweep.full_names
    return BestEntry(
        dataset=full["dataset"] if sweep.dataset in ambiguous else sweep.dataset,
        data=sweep.data,
        model=full["model"] if sweep.model in ambiguous else sweep.model,
        sweep=sweep.name,
        objective=sweep.rule.objective,
        loss=chosen.loss,
        hyperparameters=trial.hyperparameters,
        seed=trial.seed,
        trial=trial.number,
        candidates=sweep.candidates or len(sweep.records),
        run_id=sweep.run_ids.get(trial.number),
        seeds=chosen.seeds,
        recommended=None if sweep.recommended is None else sweep.recommended.name,
        better_reference=(sweep.recommended and sweep.recommended.better) or None,
        best=BestSetting(
            loss=best.loss,
            hyperparameters=best.setting.hyperparameters,
            seeds=best.seeds,
            value=best.objective,
            verdict=sweep.verdict,
        ),
        val=_split(chosen, "val", metric),
        test=_split(chosen, "test", metric),
        temperature=chosen.mean("temperature"),
        parent_run_id=sweep.parent_id,
        front=front_rows(ranking),
    )


def _split(chosen: Candidate, split: SplitName, metric: str) -> dict[str, float]:
    """A split's metrics; ECE, NLL and ``metric`` with intervals, also after scaling."""
    shown = dict.fromkeys((*_METRICS, metric))
    more = (
        MetricName(name, "", scaled, statistic)
        for name in ("ece", "nll", metric)
        for scaled in (False, True)
        for statistic in get_args(Statistic)
    )
    names = (*map(MetricName, shown), *more)
    found = {str(n): chosen.mean(replace(n, split=split)) for n in names}
    groups = chosen.mean(groups_name(split))
    return dict(finite({**found, "groups": groups if math.isnan(groups) else round(groups)}))
