"""Budgets of a sweep besides ``search.trials``: hours, epochs and GPU hours."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Final

from sweeps.search import clock
from sweeps.search.plan import Plan
from sweeps.search.record import TrialRecord

_HOUR: Final = 3600.0


class Budget:
    """``search.max_hours``, ``max_epochs`` and ``max_gpu_hours``: whichever comes first.

    Budgets cover all trials, and the search ends early enough for the finalists. The number of
    their epochs is known, so no trial starts that could exceed ``max_epochs``. Their hours are
    estimated by the longest trial so far, and when the hours are used up, no trial runs any more.
    Time spent before a resume counts; the time in between does not. Encoders' epochs do not count,
    because they are much longer.
    """

    def __init__(self, plan: Plan, records: Sequence[TrialRecord]) -> None:
        scaling = plan.sweep.scaling
        self._search = plan.search
        self._epochs_each = plan.epochs
        self._gpus = scaling.gpus * scaling.num_workers
        self._began = clock.time()
        # A trial to resume has ended its earlier runs, see TrialRecord.cut_off.
        self._before = _together(run for record in records for run in record.runs)
        self._running = {r.number: r for r in records if r.state == "running"}
        self._epochs_of_ended = 0
        self._seconds_of_ended = 0.0
        self._longest = 0.0  # seconds of the longest completed trial
        self._most_at_once = _most_at_once(run for record in records for run in record.runs)
        for record in records:
            if record.state != "running":
                self._count(record)

    def begins(self, record: TrialRecord, at_once: int) -> None:
        """A trial starts or continues; this many run concurrently."""
        self._running[record.number] = record
        self._most_at_once = max(self._most_at_once, at_once)

    def ends(self, record: TrialRecord) -> None:
        self._running.pop(record.number, None)
        self._count(record)

    def again(self, record: TrialRecord) -> None:
        """A trial that had ended will continue, and is counted while it runs."""
        self._count(record, -1)

    def _count(self, record: TrialRecord, times: int = 1) -> None:
        seconds = record.seconds(clock.time())
        self._seconds_of_ended += times * seconds
        if record.role != "encoder":
            self._epochs_of_ended += times * record.epochs
            if record.state == "finished":
                self._longest = max(self._longest, seconds)

    @property
    def spent(self) -> dict[str, tuple[float, float]]:
        now, running = clock.time(), self._running.values()
        seconds = self._before + now - self._began
        epochs = self._epochs_of_ended + sum(r.epochs for r in running if r.role != "encoder")
        gpu_seconds = self._seconds_of_ended + sum(r.seconds(now) for r in running)
        found = {
            "max_hours": (seconds / _HOUR, self._search.max_hours),
            "max_epochs": (epochs, self._search.max_epochs),
            "max_gpu_hours": (gpu_seconds * self._gpus / _HOUR, self._search.max_gpu_hours),
        }
        return {key: (spent, most) for key, (spent, most) in found.items() if most is not None}

    @property
    def used_up(self) -> str | None:
        """The budget of hours that is used up; then no trial may run."""
        hours = ((k, *v) for k, v in self.spent.items() if k != "max_epochs")
        return next((key for key, spent, most in hours if spent >= most), None)

    def lacking(self, finals: int) -> str | None:
        """The budget that does not suffice for one more trial and `finals` trials of finalists."""
        trials = 1 + finals
        running = [r for r in self._running.values() if r.role != "encoder"]
        now = clock.time()
        to_come = sum(max(0.0, self._longest - record.seconds(now)) for record in running)
        more = {
            "max_hours": (1 + math.ceil(finals / self._most_at_once)) * self._longest / _HOUR,
            "max_epochs": (len(running) + trials) * self._epochs_each
            - sum(record.epochs for record in running),
            "max_gpu_hours": (to_come + trials * self._longest) * self._gpus / _HOUR,
        }
        return next((k for k, (spent, most) in self.spent.items() if spent + more[k] > most), None)


def _together(spans: Iterable[Sequence[float]]) -> float:
    """Total length of spans; overlaps count once."""
    total, until = 0.0, -math.inf
    for begin, end in sorted(map(tuple, spans)):
        total += max(0.0, end - max(begin, until))
        until = max(until, end)
    return total


def _most_at_once(spans: Iterable[Sequence[float]]) -> int:
    running = most = 0
    changes = sorted(
        (when, step) for span in spans for when, step in zip(span, (1, -1), strict=False)
    )
    for _, step in changes:  # at equal times, a span ends before the next begins
        running += step
        most = max(most, running)
    return max(1, most)
