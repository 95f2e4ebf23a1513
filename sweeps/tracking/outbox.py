"""What MLflow still lacks of a sweep."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from typing import Final, NamedTuple

from sweeps.messages.reporter import logger
from sweeps.results.result import Ending
from sweeps.search.record import TrialRecord
from sweeps.tracking.refusals import NotTakenError

_TRIES: Final = 3  # of a run that MLflow refuses
_OWN: Final = -1  # instead of a trial number: the sweep's own run


class Lacking(NamedTuple):
    """How many trials are to be shown and to be filed, and what is to come of the sweep's end."""

    shown: int
    filed: int
    answer: bool
    end: bool


class Outbox:
    """What MLflow lacks of a sweep.

    A trial is shown (parameters, metrics, state) whenever it changes, and filed once it has ended.
    The sweep is answered when all trials are shown, and ended when all are filed. What is refused
    several times in a row, or was deleted in MLflow, is given up. All methods are thread-safe.

    Attributes:
        refused: Trials that were given up, and why; -1 is the sweep's own run.
        deleted: Trials whose runs a user deleted in MLflow.
        later: Why something is tried again; None after a pass without such a reason.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._to_show: dict[int, TrialRecord] = {}
        self._to_file: dict[int, TrialRecord] = {}
        self._ending: Ending | None = None
        self._answered = False
        self._refusals: Counter[int] = Counter()
        self.refused: dict[int, str] = {}
        self.deleted: set[int] = set()
        self.later: Exception | None = None

    def put(self, record: TrialRecord) -> None:
        """A trial has changed."""
        with self._lock:
            if record.number not in self.refused and record.number not in self.deleted:
                self._to_show[record.number] = record

    def finish(self, ending: Ending) -> None:
        """The sweep has ended."""
        self._ending = ending

    @property
    def lacking(self) -> Lacking:
        with self._lock:
            ends = self._ending is not None
            answer = ends and not self._answered
            return Lacking(len(self._to_show), len(self._to_file), answer, ends)

    @property
    def trials(self) -> int:
        """Number of trials that MLflow lacks, and may still get."""
        with self._lock:
            return len(self._to_show.keys() | self._to_file.keys())

    @property
    def refused_trials(self) -> int:
        """Number of trials that MLflow lacks, and will not get."""
        return len(self.refused.keys() - {_OWN})

    @property
    def fault(self) -> str | None:
        """Why the last one was given up; None if none was."""
        return next(reversed(self.refused.values()), None)

    def to_show(self) -> list[TrialRecord]:
        with self._lock:
            return list(self._to_show.values())

    def to_file(self) -> list[TrialRecord]:
        with self._lock:
            return list(self._to_file.values())

    def show(self, record: TrialRecord, show: Callable[[TrialRecord], None]) -> None:
        """Show a trial, which may change meanwhile."""
        epochs, state = len(record.history), record.state
        if self._is_taken(record.number, lambda: show(record)):
            with self._lock:
                if state == "running":  # also one that had failed and is retried
                    self._to_file.pop(record.number, None)
                else:
                    self._to_file[record.number] = record
                if (len(record.history), record.state) == (epochs, state):
                    self._to_show.pop(record.number, None)

    def file(self, record: TrialRecord, complete: Callable[[TrialRecord], None]) -> None:
        """Add the files of a trial that has ended."""
        if self._is_taken(record.number, lambda: complete(record)):
            with self._lock:
                self._to_file.pop(record.number, None)

    def answer(self, answer: Callable[[Ending], None]) -> None:
        """Write the result, if the sweep has ended and all trials are shown."""
        if (ending := self._ending) is not None and not self._answered and not self.lacking.shown:
            self._answered = self._is_taken(_OWN, lambda: answer(ending))

    def end(self, end: Callable[[Ending], None]) -> None:
        """End the sweep's own run, if nothing else is lacking."""
        ending, lacks_else = self._ending, self.lacking != (0, 0, False, True)
        if ending is not None and not lacks_else and self._is_taken(_OWN, lambda: end(ending)):
            self._ending = None

    def _is_taken(self, number: int, write: Callable[[], None]) -> bool:
        """Write something to a run; returns whether MLflow has taken it."""
        try:
            write()
        except NotTakenError as error:
            self._refusals[number] += error.lack == "refused"
            may_try = error.lack == "refused" and self._refusals[number] < _TRIES
            if may_try or error.lack == "later":
                self.later = error
            else:
                self._give_up(number, error)
            return False
        self._refusals.pop(number, None)
        return True

    def _give_up(self, number: int, error: NotTakenError) -> None:
        if error.lack == "deleted" and number != _OWN:
            logger.warning("%s, and stays so until it is restored there", error)
            self.deleted.add(number)
        else:
            logger.error("not in MLflow in full: %s", error)
            self.refused[number] = str(error)
        with self._lock:
            self._to_show.pop(number, None)
            self._to_file.pop(number, None)
            if number == _OWN:
                self._ending = None
