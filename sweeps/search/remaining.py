"""Estimates how much of a sweep remains, for the progress line."""

from __future__ import annotations

import math
from statistics import fmean

from sweeps.search.record import TrialRecord
from sweeps.search.trial_queue import TrialQueue
from trainables.contract.report import NEVER_STOPPED


def epochs_left(queue: TrialQueue) -> float:
    """Expected number of remaining epochs, without those of encoders.

    Trials of the search are expected to have the mean length of those that have ended. The baseline
    and the finalists run to their end.
    """
    whole = queue.plan.epochs
    ended = [
        record.epochs
        for record in queue.records
        if record.state != "running" and record.role not in NEVER_STOPPED
    ]
    usual = fmean(ended) / whole if ended else 1.0

    def expected(record: TrialRecord) -> float:
        share = 1.0 if record.role in NEVER_STOPPED else usual
        return share * (whole - record.epochs)

    left = sum(
        expected(record)
        for record in queue.records
        if record.state == "running" and record.role != "encoder"
    )
    finals = queue.finals_left
    others = max(0, queue.planned - len(queue.records) - finals)
    spent, most = queue.budget.spent.get("max_epochs", (0, math.inf))
    return min(left + whole * (finals + usual * others), max(0, most - spent))
