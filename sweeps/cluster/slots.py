"""How many concurrent trials may run."""

from __future__ import annotations

import time
from collections.abc import Callable

_KNOWN_FOR_SECONDS = 5.0
_FIRST_REST, _LONGEST_REST = 15.0, 300.0  # seconds in which no trial begins after a shortage
_FIRST_LIMIT = 300.0  # seconds in which fewer trials run; twice as long after each shortage


class Slots:
    """As many slots as the cluster has room for; fewer for a while after a lack of memory."""

    def __init__(
        self, room: Callable[[], int], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._ask = room
        self._clock = clock
        self._room, self._asked = room(), clock()
        self._shortages = 0
        self._limit = 0
        self._limited_until = self._resting_until = self._asked

    def __call__(self) -> int:
        """How many trials may run now."""
        now = self._clock()
        if now - self._asked > _KNOWN_FOR_SECONDS:
            self._room, self._asked = self._ask(), now
        if now < self._resting_until:
            return 0
        return min(self._room, self._limit) if now < self._limited_until else self._room

    def out_of_memory(self, running: int) -> str:
        """A trial was killed for lack of memory: pause, then allow one less than were `running`.

        If the shortage lasts or recurs, both times double each time. Returns a message about it.
        """
        now = self._clock()
        if now >= self._resting_until:
            self._shortages += 1
        longer = 2 ** (self._shortages - 1)
        rest, limited = min(_FIRST_REST * longer, _LONGEST_REST), _FIRST_LIMIT * longer
        self._limit = max(1, running - 1)
        self._resting_until, self._limited_until = now + rest, now + limited
        trials = "one trial runs" if self._limit == 1 else f"{self._limit} trials run concurrently"
        return f"continues in {rest:.0f} s; for {limited / 60:.0f} minutes at most {trials}"
