"""The thread that keeps MLflow in step with a sweep while it runs.

A tracking server that goes away loses nothing and stops nothing, and one run that it refuses holds
up no other.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from typing import Any

from sweeps.errors import first_line
from sweeps.search.record import TrialRecord
from sweeps.tracking.artifacts import ArtifactError
from sweeps.tracking.mirror import Mirror, RunDeletedError, RunRefusedError

logger = logging.getLogger("calsweep")

_PAUSE_SECONDS = 0.5
_LONGEST_PAUSE_SECONDS = 15.0
_TRIES = 3  # of a run that MLflow refuses


class MlflowWriter:
    """Writes the records of a sweep to MLflow as they change.

    Args:
        mirror: The sweep's runs in MLflow.
    """

    def __init__(self, mirror: Mirror) -> None:
        self._mirror = mirror
        self._pending: dict[int, TrialRecord] = {}
        self._refusals: Counter[int] = Counter()
        self._deleted: set[int] = set()
        self._set_aside: set[int] = set()  # what cannot be gathered, or is refused again and again
        self._refused: str | None = None  # the last such trial, and why
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._closing = False
        self._thread: threading.Thread | None = None
        self.fault: str | None = None  # why MLflow does not have all, as far as is known

    def submit(self, record: TrialRecord) -> None:
        """A record changed; its run will be brought up to date soon, by a background thread.

        The thread starts with the first results: making MLflow's database takes some seconds of
        CPU that the starting workers need more.
        """
        with self._lock:
            if record.number not in self._deleted | self._set_aside:
                self._pending[record.number] = record
        if self._thread is None and record.history:
            self._start()
        self._wake.set()

    @property
    def behind(self) -> int:
        """How many trials are not up to date in MLflow, though they may come to be."""
        with self._lock:
            return len(self._pending)

    def close(self, patience: float) -> int:
        """Write what is left and stop.

        Args:
            patience: Seconds to wait without any progress, should the server not answer.

        Returns:
            How many trials could not be brought up to date, those not counted whose runs were
            deleted in MLflow.
        """
        self._closing = True
        if self._thread is None and self.behind:
            self._start()
        self._wake.set()
        left, since = self.behind, time.monotonic()
        while self._thread is not None and self._thread.is_alive():
            self._thread.join(0.2)
            if self.behind != left:
                left, since = self.behind, time.monotonic()
            if self.fault is not None and time.monotonic() - since > patience:
                break
        return self.behind + len(self._set_aside)

    def finish_sweep(self, status: str, summary: dict[str, Any]) -> bool:
        """Close the sweep's own run (see :meth:`Mirror.finish`); whether MLflow took that."""
        try:
            self._mirror.finish(status, summary)
        except Exception as error:  # the sweep has its answer all the same
            self.fault = first_line(error)
            logger.error("the sweep's own run is not up to date in MLflow: %s", self.fault)
            return False
        return True

    def _start(self) -> None:
        self._thread = threading.Thread(target=self._work, name="mlflow-writer", daemon=True)
        self._thread.start()

    def _work(self) -> None:
        pause = _PAUSE_SECONDS
        while True:
            self._wake.wait(pause)
            self._wake.clear()
            if not self._closing:
                time.sleep(_PAUSE_SECONDS)  # let changes gather, so that one call carries many
            with self._lock:
                batch = list(self._pending.values())
            try:
                self._mirror.connect()
                for record in batch:
                    self._sync(record)
                self.fault, pause = self._refused, _PAUSE_SECONDS
            except Exception as error:  # whatever it is, the sweep goes on without MLflow
                self.fault = first_line(error)
                pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
            if self._closing and self.behind == 0:
                return

    def _sync(self, record: TrialRecord) -> None:
        """Bring one run up to date, or find that it is its own fault that this cannot be."""
        number, epochs, state = record.number, len(record.history), record.state
        try:
            self._mirror.sync(record)
        except RunDeletedError as error:
            logger.warning("%s, and stays so until it is restored there", error)
            self._deleted.add(number)
        except ArtifactError as error:
            self._give_up(number, error)
        except RunRefusedError as error:
            self._refusals[number] += 1
            if self._refusals[number] < _TRIES:
                return  # it comes again after the others
            self._give_up(number, error)
        with self._lock:
            given_up = number in self._deleted | self._set_aside
            if given_up or (len(record.history), record.state) == (epochs, state):
                self._pending.pop(number, None)

    def _give_up(self, number: int, error: Exception) -> None:
        logger.error("not in MLflow in full: %s", error)
        self._set_aside.add(number)
        self._refused = str(error)
