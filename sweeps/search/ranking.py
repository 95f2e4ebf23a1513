"""Choosing honestly: under a guard, on validation data, after training the finalists again.

A constant classifier can have an ECE of zero, so ECE alone chooses nothing: a trial is feasible
only if its validation error is at most the cross-entropy baseline's plus a tolerance. And the
best of many trials is lucky, so the last word is the mean over new seeds. The test split is
never looked at here.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean

from sweeps.search.record import TrialRecord
from sweeps.search.setting import BASELINE_LOSS, Setting
from sweeps.sweep_file.schema import Rule


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
    def setting(self) -> Setting:
        """What it is."""
        return self.trials[0].setting

    @property
    def loss(self) -> str:
        """Name of the loss."""
        return self.trials[0].loss

    @property
    def seeds(self) -> int:
        """How many new seeds it is judged by; 0 where it was trained in the search alone."""
        return len(self.judged) if self.judged[0].role == "finalist" else 0

    def mean(self, metric: str) -> float:
        """Mean of a metric over the judged trials (NaN where it is undefined)."""
        return fmean(trial.outcome.get(metric, math.nan) for trial in self.judged)


class Ranking:
    """A sweep's settings, best first; made once of its records and asked by whoever shows them.

    Settings that were trained again with new seeds come before those that were not: a single
    trial's objective is the luckier the more trials there were. Where the baseline did not
    finish, the lowest validation error stands in for it.

    Attributes:
        rule: What it ranks by.
        records: The sweep's trials, in whatever state.
        candidates: Every setting with a finished trial: feasible before not, then by objective.

    Args:
        records: The sweep's trials.
        rule: What to rank by.
    """

    def __init__(self, records: Iterable[TrialRecord], rule: Rule) -> None:
        self.rule = rule
        self.records = tuple(records)
        finished = [r for r in self.records if r.state == "finished" and _has(r, rule.objective)]
        self._finished = finished
        groups: dict[Setting, list[TrialRecord]] = {}
        for record in finished:
            groups.setdefault(record.setting, []).append(record)
        judged = {setting: _judged(trials) for setting, trials in groups.items()}
        limits = self._limits(judged.values())
        found = [
            _candidate(groups[setting], own, rule.objective, limits[_is_again(own)])
            for setting, own in judged.items()
        ]
        most = max((candidate.seeds for candidate in found), default=0)
        self.candidates = tuple(
            sorted(
                found,
                key=lambda c: (
                    not c.feasible,
                    not (most and c.seeds == most),
                    c.objective,
                    c.trials[0].number,
                ),
            )
        )

    @property
    def chosen(self) -> Candidate | None:
        """The best setting, if the guard lets it pass."""
        best = self.candidates[0] if self.candidates else None
        return best if best is not None and best.feasible else None

    @cached_property
    def baseline(self) -> Candidate | None:
        """The cross-entropy baseline, if it finished."""
        return self.best_of(BASELINE_LOSS)

    @cached_property
    def reference(self) -> float | None:
        """Validation error of the search's baseline, that the guard holds others to."""
        return guard_reference(r for r in self._finished if r.role == "baseline")

    def best_of(self, loss: str) -> Candidate | None:
        """The best setting of a loss, if any of its trials finished."""
        return next((c for c in self.candidates if c.loss == loss), None)

    def finalists(self, count: int) -> list[Candidate]:
        """The settings to train again: the best feasible ones, and the baseline to compare with.

        Args:
            count: How many, the baseline not counted; 0 for none at all.
        """
        if count == 0:
            return []
        feasible = [c for c in self.candidates if c.feasible]
        chosen = feasible[:count]
        return chosen + [c for c in feasible[count:] if c.loss == BASELINE_LOSS]

    def _limits(self, judged: Iterable[list[TrialRecord]]) -> dict[bool, float]:
        """The largest validation error allowed: of settings trained again, and of the others."""
        again = guard_reference(r for r in self._finished if r.role == "finalist")
        references = {
            False: self.reference,
            True: self.reference if again is None else again,
        }
        lowest = {False: math.inf, True: math.inf}  # like is compared with like here too
        for trials in judged:
            lowest[_is_again(trials)] = min(lowest[_is_again(trials)], _val_error(trials))
        return {
            kind: (lowest[kind] if known is None else known) + self.rule.guard
            for kind, known in references.items()
        }


def guard_reference(records: Iterable[TrialRecord]) -> float | None:
    """Validation error of the cross-entropy baseline: the mean over its finished trials."""
    errors = [
        r.outcome["val_error"] for r in records if r.loss == BASELINE_LOSS and r.state == "finished"
    ]
    return fmean(errors) if errors else None


def guard_excess(record: TrialRecord, reference: float, guard: float) -> float:
    """By how much a trial's validation error is above what the guard allows; feasible at <= 0."""
    return record.outcome["val_error"] - reference - guard


def _has(record: TrialRecord, metric: str) -> bool:
    return math.isfinite(record.outcome.get(metric, math.nan))


def _judged(trials: list[TrialRecord]) -> list[TrialRecord]:
    """The trials that a setting is judged by."""
    return [r for r in trials if r.role == "finalist"] or trials[:1]


def _is_again(judged: list[TrialRecord]) -> bool:
    return judged[0].role == "finalist"


def _val_error(judged: list[TrialRecord]) -> float:
    return fmean(r.outcome["val_error"] for r in judged)


def _candidate(
    trials: list[TrialRecord], judged: list[TrialRecord], objective: str, limit: float
) -> Candidate:
    error = _val_error(judged)
    return Candidate(
        trials=tuple(trials),
        judged=tuple(judged),
        objective=fmean(r.outcome[objective] for r in judged),
        val_error=error,
        feasible=error <= limit,
    )
