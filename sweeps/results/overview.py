"""One line about a sweep, finished or not, for `calsweep list`."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from sweeps.messages.formatting import objective_heading
from sweeps.search.ranking import Ranking
from sweeps.sweep_file.schema import SweepFile


@dataclass(frozen=True)
class Overview:
    """A sweep in short.

    Attributes:
        states: Number of trials in each state.
        started: When its first trial began, in seconds since the epoch; None before.
        best: The best setting so far, with its objective; empty if none passes the guard.
    """

    name: str
    dataset: str
    model: str
    states: dict[str, int]
    started: float | None
    finished: bool
    best: str


def overview(sweep: SweepFile, ranking: Ranking, finished: bool) -> Overview:
    records, chosen = ranking.records, ranking.chosen
    heading = objective_heading(sweep.objective)
    return Overview(
        name=sweep.name,
        dataset=sweep.dataset.label,
        model=sweep.model_label,
        states=dict(Counter(record.state for record in records)),
        started=min((record.started for record in records), default=None),
        finished=finished,
        best=f"{chosen.trials[0].label}, {heading} {chosen.objective:.4f}" if chosen else "",
    )
