"""The thread that keeps MLflow up to date while a sweep runs, and afterwards.

If the tracking server is unreachable, nothing is lost and the sweep continues. If it refuses a run,
other runs are not delayed.
"""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from typing import Literal

from sweeps.errors import first_line
from sweeps.messages.formatting import counted
from sweeps.messages.reporter import LOG, Reporter
from sweeps.results.result import Ending
from sweeps.search.record import TrialRecord
from sweeps.tracking.mirror import Mirror
from sweeps.tracking.outbox import Outbox
from sweeps.tracking.rights import NoRightError

_PAUSE_SECONDS = 0.5
_LONGEST_PAUSE_SECONDS = 15.0
_SECONDS_TO_STOP = 5.0  # after Ctrl-C, for the call to MLflow that is under way

# "suspending" closes a sweep that can be resumed. Once "abandoned", the caller no longer waits, and
# another process may write.
_Mode = Literal["open", "finishing", "suspending", "abandoned"]


class MlflowWriter:
    """Writes the records of a sweep to MLflow as they change.

    It first writes what MLflow's pages show, for all trials and the sweep. Files follow when there
    is time, and then the runs are closed. A missing permission is reported at once.

    Attributes:
        outbox: What MLflow lacks.
        fault: Why it does not have all, as far as is known.
    """

    def __init__(self, mirror: Mirror, reporter: Reporter = LOG) -> None:
        self._mirror = mirror
        self._reporter = reporter
        self._wake = threading.Event()
        self._mode: _Mode = "open"
        self._closes = threading.Event()
        self._is_denied = False  # by a call after the closing: no right was granted meanwhile
        self._thread: threading.Thread | None = None
        self.outbox = Outbox()
        self.fault: str | None = None

    def submit(self, record: TrialRecord) -> None:
        """Called when a record has changed; a background thread brings its run up to date soon.

        It starts with the first results, because making MLflow's database takes some seconds of CPU
        time, which the starting workers need.
        """
        self.outbox.put(record)
        if self._thread is None and record.history:
            self._start()
        self._wake.set()

    def close(self, patience: float, ending: Ending | None = None) -> int:
        """Write the remaining changes and stop, or after so many seconds without progress.

        Without an ending, the sweep's own run and those of unfinished trials end as killed. Returns
        the number of trials that could not be brought up to date, without those whose runs were
        deleted in MLflow; :attr:`fault` says why.
        """
        outbox = self.outbox
        if ending is not None:
            outbox.finish(ending)
        self._mode = "suspending" if ending is None else "finishing"
        self._closes.set()
        if self._thread is None and any(outbox.lacking):
            self._start()
        self._wake.set()
        try:
            self._wait(patience)
        except KeyboardInterrupt:
            self._mode = "abandoned"
            self._end_at_once(ending)
            raise
        finally:
            self._mode = "abandoned"
        return outbox.trials + outbox.refused_trials

    def _wait(self, patience: float) -> None:
        lacking, since = self.outbox.lacking, time.monotonic()
        while self._thread is not None and self._thread.is_alive():
            self._thread.join(0.2)
            if (trials := self.outbox.trials) > 0:
                self._reporter.left(f"Writing to MLflow, {counted(trials, 'trial')} left")
            if self.outbox.lacking != lacking:
                lacking, since = self.outbox.lacking, time.monotonic()
            waited = time.monotonic() - since
            if self.fault is not None and (self._is_denied or waited > patience):
                return

    def _end_at_once(self, ending: Ending | None) -> None:
        """No run is left as running; ``calsweep sync`` completes them."""
        if self._thread is None or ending is None:
            return
        self._thread.join(_SECONDS_TO_STOP)
        if not self._thread.is_alive():
            with suppress(Exception):
                self._mirror.suspend(ending)

    def _start(self) -> None:
        self._thread = threading.Thread(target=self._work, name="mlflow-writer", daemon=True)
        self._thread.start()

    def _work(self) -> None:
        pause, outbox = _PAUSE_SECONDS, self.outbox
        while self._mode == "open" or (self._mode != "abandoned" and any(outbox.lacking)):
            if not outbox.trials:
                self._wake.wait(pause)
            self._wake.clear()
            before, outbox.later, is_closing = outbox.lacking, None, self._mode != "open"
            try:
                self._write()
                if outbox.later is not None:
                    raise outbox.later
                self.fault, self._is_denied, pause = outbox.fault, False, _PAUSE_SECONDS
            except Exception as error:  # after any error the sweep continues without MLflow
                said, self.fault = self.fault, first_line(error)
                denied = isinstance(error, NoRightError)
                self._is_denied = denied and is_closing
                if denied and self.fault != said:
                    self._reporter.notice(f"the sweep continues without MLflow: {self.fault}")
                if outbox.lacking != before:
                    pause = _PAUSE_SECONDS
                if is_closing:
                    time.sleep(pause)
                else:
                    self._closes.wait(pause)
                pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
        if self._mode == "suspending" and self.fault == outbox.fault:
            with suppress(Exception):  # MLflow has all results, as far as it takes them
                self._mirror.suspend()

    def _write(self) -> None:
        """One pass: all that is shown, then files for some time, while changes gather."""
        outbox, mirror = self.outbox, self._mirror
        mirror.connect()
        for record in outbox.to_show():
            if self._mode == "abandoned":
                return
            outbox.show(record, mirror.show)
        outbox.answer(mirror.answer)
        until = time.monotonic() + _PAUSE_SECONDS
        for record in outbox.to_file():
            if self._mode == "abandoned":
                return
            outbox.file(record, mirror.complete)
            if time.monotonic() > until and outbox.lacking.shown:
                break
        if self._mode == "open" and outbox.later is None:
            time.sleep(max(0.0, until - time.monotonic()))
        if self._mode != "abandoned":
            outbox.end(mirror.end)
