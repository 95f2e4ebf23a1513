"""Choosing honestly: under a guard, on validation data, after training the finalists again.

A constant classifier can have an ECE of zero, so ECE alone chooses nothing: a trial is feasible
only if its validation error is at most the cross-entropy baseline's plus a tolerance. And the
best of many trials is lucky, so the last word is the mean over new seeds. The test split is
never looked at here.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

from sweeps.search.record import TrialRecord

BASELINE = "cross_entropy"


@dataclass(frozen=True)
class Rule:
    """What a sweep chooses by.

    Attributes:
        objective: The metric to be lowest, such as ``val_ece``.
        guard: By how much the validation error may exceed the baseline's, or where the baseline
            did not finish, the lowest there is.
    """

    objective: str
    guard: float


@dataclass(frozen=True)
class Candidate:
    """A setting, with all its trials.

    Attributes:
        trials: Its finished trials, the first is the one of the search.
        judged: Those that it is judged by: the ones with new seeds, or the first where there
            are none.
        objective: Mean of the objective over ``judged``.
        val_error: Mean validation error over ``judged``.
        feasible: Whether the guard lets it pass.
    """

    trials: tuple[TrialRecord, ...]
    judged: tuple[TrialRecord, ...]
    objective: float
    val_error: float
    feasible: bool

    @property
    def loss(self) -> str:
        """Name of the loss."""
        return self.trials[0].loss

    def mean(self, metric: str) -> float:
        """Mean of a metric over the judged trials (NaN where it is undefined)."""
        return fmean(trial.outcome.get(metric, math.nan) for trial in self.judged)


def guard_reference(records: Iterable[TrialRecord]) -> float | None:
    """Validation error of the cross-entropy baseline: the mean over its finished trials."""
    errors = [
        r.outcome["val_error"] for r in records if r.loss == BASELINE and r.state == "finished"
    ]
    return fmean(errors) if errors else None


def guard_excess(record: TrialRecord, reference: float, guard: float) -> float:
    """By how much a trial's validation error is above what the guard allows; feasible at <= 0."""
    return record.outcome["val_error"] - reference - guard


def candidates(records: Sequence[TrialRecord], rule: Rule) -> list[Candidate]:
    """Every setting with a finished trial, best first: feasible before not, then by objective.

    Settings that were trained again with new seeds come before those that were not: a single
    trial's objective is the luckier the more trials there were. Where the baseline did not finish,
    the lowest validation error stands in for it.
    """
    finished = [
        r
        for r in records
        if r.state == "finished" and math.isfinite(r.outcome.get(rule.objective, math.nan))
    ]
    groups: dict[tuple[str, str], list[TrialRecord]] = {}
    for record in finished:
        groups.setdefault(record.setting, []).append(record)
    judged = {
        key: [r for r in trials if r.role == "finalist"] or trials[:1]
        for key, trials in groups.items()
    }
    errors = {key: fmean(r.outcome["val_error"] for r in own) for key, own in judged.items()}
    baseline = guard_reference([r for r in finished if r.role == "baseline"])
    retrained_baseline = guard_reference([r for r in finished if r.role == "finalist"])
    found = []
    for key, trials in groups.items():
        again = judged[key][0].role == "finalist"
        limit = retrained_baseline if again and retrained_baseline is not None else baseline
        if limit is None:  # like is compared with like here too
            limit = min(e for k, e in errors.items() if (judged[k][0].role == "finalist") == again)
        found.append(
            Candidate(
                trials=tuple(trials),
                judged=tuple(judged[key]),
                objective=fmean(r.outcome[rule.objective] for r in judged[key]),
                val_error=errors[key],
                feasible=errors[key] <= limit + rule.guard,
            )
        )
    seeds = max((len(c.judged) for c in found if c.judged[0].role == "finalist"), default=0)
    return sorted(
        found,
        key=lambda c: (
            not c.feasible,
            not (seeds and c.judged[0].role == "finalist" and len(c.judged) == seeds),
            c.objective,
            c.trials[0].number,
        ),
    )


def choose(records: Sequence[TrialRecord], rule: Rule) -> Candidate | None:
    """The chosen setting: the first of :func:`candidates` if it is feasible, else None."""
    ranked = candidates(records, rule)
    return ranked[0] if ranked and ranked[0].feasible else None


def finalists(records: Sequence[TrialRecord], rule: Rule, count: int) -> list[Candidate]:
    """The settings to train again: the best feasible ones, and the baseline to compare with.

    Args:
        records: The trials of the search.
        rule: What to choose by.
        count: How many, the baseline not counted; 0 for none at all.
    """
    if count == 0:
        return []
    searched = [r for r in records if r.role != "finalist"]
    ranked = [c for c in candidates(searched, rule) if c.feasible]
    chosen = ranked[:count]
    baseline = [c for c in ranked if c.loss == BASELINE and c not in chosen]
    return chosen + baseline
