"""The thread that keeps MLflow up to date while a sweep runs.

If the tracking server is unreachable, nothing is lost and the sweep continues. If it refuses a run,
other runs are not delayed.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress

from sweeps.errors import first_line
from sweeps.messages.formatting import counted
from sweeps.messages.reporter import LOG, Reporter
from sweeps.results.result import Ending
from sweeps.search.record import TrialRecord
from sweeps.tracking.artifacts import ArtifactError, FilesAwayError
from sweeps.tracking.mirror import Mirror
from sweeps.tracking.refusals import TRIES, RunDeletedError, RunRefusedError, RunUnansweredError
from sweeps.tracking.rights import NoRightError

logger = logging.getLogger("calsweep")

_PAUSE_SECONDS = 0.5
_LONGEST_PAUSE_SECONDS = 15.0
_SECONDS_TO_STOP = 5.0  # after Ctrl-C, for the call to MLflow that is under way
_OWN = -1  # instead of a trial number: the sweep's own run


def mlflow_lacks(trials: int) -> str:
    """A message about the number of trials that are not up to date in MLflow."""
    return f"Writing to MLflow, {counted(trials, 'trial')} left"


class MlflowWriter:
    """Writes the records of a sweep to MLflow as they change.

    It first writes what MLflow's pages show, for all trials and the sweep. Files follow when there
    is time, and then the runs are closed. A missing permission is reported at once.
    """

    def __init__(self, mirror: Mirror, reporter: Reporter = LOG) -> None:
        self._mirror = mirror
        self._reporter = reporter
        self._pending: dict[int, TrialRecord] = {}  # to be shown
        self._unfiled: dict[int, TrialRecord] = {}  # that ended: their files are to come
        self._refusals: Counter[int] = Counter()
        self._given_up: set[int] = set()  # deleted, damaged, or refused again and again
        self._lacking = 0  # of those, the ones not deleted
        self._ending: Ending | None = None
        self._answered = False
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._closing = False
        self._suspended = False  # closed without an ending: the sweep can be resumed
        self._abandoned = False  # the caller no longer waits; another process may write
        self._thread: threading.Thread | None = None
        self._refused: str | None = None  # the last run that was given up, and why
        self._later: Exception | None = None  # why a run is tried again
        self.fault: str | None = None  # why MLflow does not have all, as far as is known

    def submit(self, record: TrialRecord) -> None:
        """Called when a record has changed; a background thread brings its run up to date soon.

        It starts with the first results, because making MLflow's database takes some seconds of CPU
        time, which the starting workers need.
        """
        with self._lock:
            if record.number not in self._given_up:
                self._pending[record.number] = record
        if self._thread is None and record.history:
            self._start()
        self._wake.set()

    @property
    def behind(self) -> int:
        """Number of trials that are not up to date in MLflow yet."""
        with self._lock:
            return len(self._pending.keys() | self._unfiled.keys())

    def close(self, patience: float, ending: Ending | None = None) -> int:
        """Write the remaining changes and stop, or after so many seconds without progress.

        Without an ending, the sweep's own run and those of unfinished trials end as killed. Returns
        the number of trials that could not be brought up to date, without those whose runs were
        deleted in MLflow; :attr:`fault` says why.
        """
        self._ending = ending
        self._suspended = ending is None
        self._closing = True
        if self._thread is None and (self.behind or ending is not None):
            self._start()
        self._wake.set()
        left, since = self._left, time.monotonic()
        try:
            while self._thread is not None and self._thread.is_alive():
                self._thread.join(0.2)
                if (behind := self.behind) > 0:
                    self._reporter.left(mlflow_lacks(behind))
                if self._left != left:
                    left, since = self._left, time.monotonic()
                if self.fault is not None and time.monotonic() - since > patience:
                    break
        except KeyboardInterrupt:
            self._abandoned = True
            self._end_at_once()
            raise
        finally:
            self._abandoned = True
        return self.behind + self._lacking

    def _end_at_once(self) -> None:
        """No run is left as running; ``calsweep sync`` completes them."""
        if self._thread is None or self._ending is None:
            return
        self._thread.join(_SECONDS_TO_STOP)
        if not self._thread.is_alive():
            with suppress(Exception):
                self._mirror.interrupt(self._ending)

    @property
    def _left(self) -> tuple[int, int, bool, bool]:
        """Trials to show, trials without files, and whether result and end must be written."""
        with self._lock:
            trials = len(self._pending), len(self._unfiled)
        ends = self._ending is not None
        return *trials, ends and not self._answered, ends

    def _start(self) -> None:
        self._thread = threading.Thread(target=self._work, name="mlflow-writer", daemon=True)
        self._thread.start()

    def _work(self) -> None:
        pause = _PAUSE_SECONDS
        while not self._abandoned and (not self._closing or any(self._left)):
            if not any(self._left[:2]):
                self._wake.wait(pause)
            self._wake.clear()
            left, self._later = self._left, None
            try:
                self._mirror.connect()
                self._show_all()
                self._end_sweep(answer_only=True)
                self._file(_PAUSE_SECONDS)
                self._end_sweep()
                if self._later is not None:
                    raise self._later
                self.fault, pause = self._refused, _PAUSE_SECONDS
            except Exception as error:  # after any error the sweep continues without MLflow
                said, self.fault = self.fault, first_line(error)
                if isinstance(error, NoRightError) and self.fault != said:
                    self._reporter.notice(f"the sweep continues without MLflow: {self.fault}")
                if self._left != left:
                    pause = _PAUSE_SECONDS
                time.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
        if self._suspended and not self._abandoned and self.fault == self._refused:
            with suppress(Exception):  # MLflow has all results, as far as it takes them
                self._mirror.suspend()

    def _show_all(self) -> None:
        with self._lock:
            batch = list(self._pending.values())
        for record in batch:
            if self._abandoned:
                return
            self._show(record)

    def _show(self, record: TrialRecord) -> None:
        epochs, state = len(record.history), record.state
        if self._attempt(record, self._mirror.show):
            with self._lock:
                if state != "running":
                    self._unfiled[record.number] = record
                if (len(record.history), record.state) == (epochs, state):
                    self._pending.pop(record.number, None)

    def _file(self, seconds: float) -> None:
        """Add files for some time, while further changes gather, so that one call writes many."""
        until = time.monotonic() + seconds
        with self._lock:
            batch = list(self._unfiled.values())
        for record in batch:
            if self._attempt(record, self._mirror.complete):
                with self._lock:
                    self._unfiled.pop(record.number, None)
            if self._abandoned or (time.monotonic() > until and self._left[0]):
                break
        if not self._closing and self._later is None:
            time.sleep(max(0.0, until - time.monotonic()))

    def _end_sweep(self, answer_only: bool = False) -> None:
        """Write the result once all trials are shown; end the sweep's own run after that."""
        if self._ending is None or self._abandoned:
            return
        try:
            if not self._answered and not self._left[0]:
                self._mirror.answer(self._ending)
                self._answered = True
            if not answer_only and not any(self._left[:3]):
                self._mirror.end(self._ending)
                self._ending = None
        except RunUnansweredError as error:
            self._later = error
        except RunRefusedError as error:
            if isinstance(error, RunDeletedError) or self._is_refused_again(_OWN):
                self._ending = None
                self._tell(error)
            else:
                self._later = error

    def _attempt(self, record: TrialRecord, action: Callable[[TrialRecord], None]) -> bool:
        """Call a function on a run; returns whether MLflow has taken it.

        If not, it is tried again after the others and a pause, or given up.
        """
        number = record.number
        try:
            action(record)
        except RunDeletedError as error:
            logger.warning("%s, and stays so until it is restored there", error)
            self._give_up(number)
        except ArtifactError as error:
            self._lacking += 1
            self._give_up(number)
            self._tell(error)
        except (FilesAwayError, RunUnansweredError) as error:
            self._later = error
        except RunRefusedError as error:
            if self._is_refused_again(number):
                self._lacking += 1
                self._give_up(number)
                self._tell(error)
        else:
            self._refusals.pop(number, None)
            return True
        return False

    def _is_refused_again(self, number: int) -> bool:
        """Count a refusal; returns whether there were as many as there are tries."""
        self._refusals[number] += 1
        return self._refusals[number] >= TRIES

    def _give_up(self, number: int) -> None:
        with self._lock:
            self._given_up.add(number)
            self._pending.pop(number, None)
            self._unfiled.pop(number, None)

    def _tell(self, error: Exception) -> None:
        logger.error("not in MLflow in full: %s", error)
        self._refused = str(error)
