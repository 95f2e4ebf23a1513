"""A sweep in one line, finished or not: its state, its best setting so far, and the reason."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Final, Literal

from sweeps.messages.formatting import counted, objective_heading
from sweeps.search.plan import Plan
from sweeps.search.ranking import Candidate, Ranking
from trainables.contract.setting import BASELINE_LOSS

SweepState = Literal["running", "finished", "failed", "stopped"]


@dataclass(frozen=True)
class Overview:
    """A sweep in short.

    Attributes:
        state: Whether it runs now, or how it ended; a stopped sweep can be resumed.
        states: Number of trials in each state.
        started: When its first trial began, in seconds since the epoch; None before.
        best: The best setting so far, with its objective; empty if none passes the guard.
    """

    name: str
    dataset: str
    model: str
    state: SweepState
    states: dict[str, int]
    started: float | None
    best: str


@dataclass(frozen=True)
class ListedSweep(Overview):
    """A sweep in a list, with what it has used.

    Attributes:
        owner: ``user@host`` who started it; empty if unknown.
        last_active: When a trial last began or ended, in seconds since the epoch; None before.
        cpu_hours: Hours of its trials times the CPUs of each.
        gpu_hours: Likewise.
        bytes: Size of its folder.
    """

    owner: str
    last_active: float | None
    cpu_hours: float
    gpu_hours: float
    bytes: int


def overview(plan: Plan, ranking: Ranking, state: SweepState) -> Overview:
    records, chosen = ranking.records, ranking.chosen
    heading = objective_heading(plan.rule.objective)
    return Overview(
        name=plan.name,
        dataset=plan.sweep.dataset.label,
        model=plan.sweep.model_label,
        state=state,
        states=dict(Counter(record.state for record in records)),
        started=min((record.started for record in records), default=None),
        best=f"{chosen.trials[0].label}, {heading} {chosen.objective:.4f}" if chosen else "",
    )


@dataclass(frozen=True)
class SoFar:
    """The best setting so far, or that there is none yet, and why."""

    best: str
    why: str = ""

    def __str__(self) -> str:
        """Both in one line."""
        return f"{self.best} ({self.why})" if self.why else self.best


@dataclass(frozen=True)
class Glimpse:
    """The state of a sweep at one moment.

    Attributes:
        planned: Approximate total number of trials.
        running: The running trials, each with its completed and planned epochs.
        epochs: Number of epochs of all trials.
        pilot: The progress of the pilot while it runs.
    """

    overview: Overview
    so_far: SoFar
    planned: int
    running: list[tuple[str, int, int]] = field(default_factory=list)
    epochs: int = 0
    pilot: str | None = None


NONE_YET: Final = SoFar("none has finished yet")


def so_far(ranking: Ranking) -> SoFar:
    """The best of the trials that have ended, and the reason."""
    if (chosen := ranking.chosen) is None:
        if not ranking.candidates:
            return NONE_YET
        return SoFar(f"none of {counted(len(ranking.candidates), 'setting')} passes", _out(ranking))
    value = f"{ranking.rule.objective} {chosen.objective:.4f}"
    seeds = f", mean of {counted(chosen.seeds, 'fresh seed')}" if chosen.seeds else ""
    reasons = (*_beside_baseline(chosen, ranking), _front(ranking), _out(ranking))
    return SoFar(f"{chosen.trials[0].label}, {value}{seeds}", "; ".join(filter(None, reasons)))


def _beside_baseline(chosen: Candidate, ranking: Ranking) -> tuple[str, ...]:
    baseline, guard = ranking.baseline, f"guard {ranking.rule.guard:g}"
    if chosen == baseline:
        return (f"nothing is below {BASELINE_LOSS} yet",)
    if baseline is None:
        return (f"{BASELINE_LOSS} has not finished", f"error {chosen.val_error:.4f}, {guard}")
    lower = baseline.objective - chosen.objective
    return (
        f"{abs(lower):.4f} {'below' if lower >= 0 else 'above'} {BASELINE_LOSS}",
        f"error {chosen.val_error - baseline.val_error:+.4f}, {guard}",
    )


def _front(ranking: Ranking) -> str:
    if not ranking.rule.others:
        return ""
    return f"first of {len(ranking.front)} on the front of {' and '.join(ranking.rule.objectives)}"


def _out(ranking: Ranking) -> str:
    chosen = ranking.chosen
    out = [
        each
        for each in ranking.candidates
        if not each.feasible and (chosen is None or each.objective < chosen.objective)
    ]
    if not out:
        return ""
    broken = Counter(limit.too_far for each in out for limit in each.broken)
    lower = "" if chosen is None else f"{len(out)} lower left out: "
    return lower + ", ".join(broken)
