"""Watches trials: reports silent ones and a busy machine, and says which ones have to end."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator

from sweeps.messages.reporter import Reporter
from sweeps.search.record import TrialRecord
from sweeps.search.trial_queue import TrialQueue, overtime

_PATIENCE = 60.0  # seconds
_TIMES_AN_EPOCH = 3.0  # times the longest epoch so far: a long epoch is no reason to worry
_SECONDS_BETWEEN_LOOKS = 5.0
_HUNG_AFTER, _HUNG_TIMES = 1800.0, 30.0  # seconds without an epoch, and times the longest one
_SUSPENDED = 60.0  # seconds between two looks, after which this process itself had been stopped
_BUSY = 2.0  # runnable processes per CPU; a sweep itself adds about one


class Silence:
    """Reports a trial after a minute without an epoch, and again whenever this time has doubled.

    `load` returns how many processes want to run on this machine, lately.
    """

    def __init__(
        self,
        queue: TrialQueue,
        reporter: Reporter,
        clock: Callable[[], float] = time.monotonic,
        load: Callable[[], float] = lambda: os.getloadavg()[0],
    ) -> None:
        self._queue = queue
        self._reporter = reporter
        self._has_workers = queue.plan.sweep.scaling.num_workers > 1
        self._clock = clock
        self._load = load
        self._heard: dict[int, float] = {}
        self._patience: dict[int, float] = {}  # of the trials that were reported
        self._begun: dict[int, float] = {}  # when the process of a trial got it
        self._has_epoch: set[int] = set()  # since then
        self._longest = 0.0
        self._next_look = 0.0
        self._said_busy = False

    def started(self, number: int) -> None:
        self._begun[number] = self._heard[number] = self._clock()

    def heard(self, number: int) -> None:
        now = self._clock()
        self._longest = max(self._longest, now - self._heard.get(number, now))
        self._heard[number] = now
        self._has_epoch.add(number)
        self._patience.pop(number, None)

    def ended(self, number: int) -> None:
        self._begun.pop(number, None)
        self._has_epoch.discard(number)
        self._heard.pop(number, None)
        self._patience.pop(number, None)

    def look(self) -> dict[int, str]:
        """Report the trials that have been silent for long.

        Returns those that hang or have taken longer than allowed: their numbers, and why they have
        to end.
        """
        now = self._clock()
        if now < self._next_look:
            return {}
        if now > self._next_look + _SUSPENDED:  # no trial could be heard meanwhile
            self._heard = dict.fromkeys(self._heard, now)
        self._next_look = now + _SECONDS_BETWEEN_LOOKS
        busy = self._busy()
        if busy and not self._said_busy:
            self._said_busy = True
            self._reporter.notice(f"This machine is busy ({busy}): trials may take longer")
        usual = max(_PATIENCE, _TIMES_AN_EPOCH * self._longest)
        for record in self._queue.running:
            silent = now - self._heard.setdefault(record.number, now)
            if silent >= self._patience.get(record.number, usual):
                self._patience[record.number] = 2 * silent
                self._reporter.notice(
                    f"trial {record.number} ({record.label}) has reported nothing for "
                    f"{silent:.0f} s: it is {self._doing(record)}"
                    + (f"; this machine is busy ({busy})" if busy else "")
                )
        return dict(self._overdue(now))

    def _overdue(self, now: float) -> Iterator[tuple[int, str]]:
        for record in self._queue.running:
            number = record.number
            if number not in self._begun:  # it waits for room or its process
                continue
            if limit := overtime(record, now - self._begun[number], self._queue.plan.search):
                yield number, limit
                continue
            silent = now - self._heard[number]
            starts = self._has_workers and number not in self._has_epoch
            if starts or silent <= _HUNG_AFTER:
                continue
            if (longest := self._longest_of(record)) and silent > _HUNG_TIMES * longest:
                yield (
                    number,
                    f"it hung: no epoch for {silent / 60:.0f} minutes after epoch {record.epochs}; "
                    f"the longest took {longest:.1f} s",
                )

    def _longest_of(self, record: TrialRecord) -> float:
        """The longest epoch of trials of its kind, in seconds; 0 if none is known."""
        is_encoder = record.role == "encoder"
        alike = (r for r in self._queue.records if (r.role == "encoder") == is_encoder)
        known = (entry.get("training_seconds", 0.0) for r in alike for entry in r.history)
        return max(known, default=0.0)

    def _doing(self, record: TrialRecord) -> str:
        if record.number not in self._begun:
            return "waiting for its process, which starts and imports PyTorch"
        training = f"training epoch {record.epochs + 1} of {self._queue.epochs(record)}"
        if self._has_workers and not record.epochs:
            return f"starting its workers, or {training}"
        return training

    def _busy(self) -> str | None:
        load, cpus = self._load(), os.cpu_count() or 1
        return f"load {load:.1f} on {cpus} CPUs" if load > _BUSY * cpus else None
