"""One line about a sweep, finished or not, for `calsweep list`."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Literal

from sweeps.messages.formatting import objective_heading
from sweeps.search.plan import Plan
from sweeps.search.ranking import Ranking

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
