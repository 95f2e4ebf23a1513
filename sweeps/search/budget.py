"""The hours that a sweep may take."""

from __future__ import annotations

import math
import time

from sweeps.search.record import TrialRecord


class Budget:
    """``search.max_hours``, from now on: a sweep that is resumed has as many hours again.

    Args:
        max_hours: None for no limit.
    """

    def __init__(self, max_hours: float | None) -> None:
        self._began = time.time()
        self._ends = math.inf if max_hours is None else self._began + 3600 * max_hours
        self._longest = 0.0  # seconds of a trial that ran to its end
        self._search_is_over = False

    @property
    def is_up(self) -> bool:
        """Whether no trial may run any more."""
        return time.time() > self._ends

    def learn(self, record: TrialRecord) -> None:
        """A trial of the search ended: as long as the longest a final trial may take."""
        if record.state == "finished" and record.ended and record.started >= self._began:
            self._longest = max(self._longest, record.ended - record.started)

    def search_is_over(self, finals: int, at_once: int) -> bool:
        """Whether the time that is left is needed for the finalists' trials; once so, always so.

        Args:
            finals: How many trials those are.
            at_once: How many of them can run at once.
        """
        rounds = 1 + math.ceil(finals / max(1, at_once))  # after one more trial of the search
        self._search_is_over |= time.time() + rounds * self._longest > self._ends
        return self._search_is_over
