"""Reports trials that have been silent for long, what they are doing, and a busy machine."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from sweeps.messages.reporter import Reporter
from sweeps.search.record import TrialRecord
from sweeps.search.trial_queue import TrialQueue

_PATIENCE = 60.0  # seconds
_TIMES_AN_EPOCH = 3.0  # times the longest epoch so far: a long epoch is no reason to worry
_SECONDS_BETWEEN_LOOKS = 5.0
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
        self._clock = clock
        self._load = load
        self._heard: dict[int, float] = {}
        self._patience: dict[int, float] = {}  # of the trials that were reported
        self._has_process: set[int] = set()
        self._longest = 0.0
        self._next_look = 0.0
        self._said_busy = False

    def started(self, number: int) -> None:
        self._has_process.add(number)
        self._heard[number] = self._clock()

    def heard(self, number: int) -> None:
        now = self._clock()
        self._longest = max(self._longest, now - self._heard.get(number, now))
        self._heard[number] = now
        self._patience.pop(number, None)

    def ended(self, number: int) -> None:
        self._has_process.discard(number)
        self._heard.pop(number, None)
        self._patience.pop(number, None)

    def look(self) -> None:
        """Report the trials that have been silent for too long."""
        now = self._clock()
        if now < self._next_look:
            return
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

    def _doing(self, record: TrialRecord) -> str:
        if record.number not in self._has_process:
            return "waiting for its process, which starts and imports PyTorch"
        training = f"training epoch {record.epochs + 1} of {self._queue.epochs(record)}"
        if self._queue.plan.sweep.scaling.num_workers > 1 and not record.epochs:
            return f"starting its workers, or {training}"
        return training

    def _busy(self) -> str | None:
        load, cpus = self._load(), os.cpu_count() or 1
        return f"load {load:.1f} on {cpus} CPUs" if load > _BUSY * cpus else None
