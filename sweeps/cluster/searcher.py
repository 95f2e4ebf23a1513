"""Gives Ray Tune the next trial."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ray.tune.search import Searcher

from sweeps.cluster.shared import SharedWithTune
from sweeps.search.trial_queue import TrialQueue


class QueueSearcher(SharedWithTune, Searcher):
    """Gives Tune the next trial of the queue while fewer run than `slots` returns."""

    def __init__(self, queue: TrialQueue, slots: Callable[[], int]) -> None:
        super().__init__()
        self._queue = queue
        self._slots = slots

    def suggest(self, trial_id: str) -> dict[str, Any] | str | None:
        """The configuration of the next trial; None to wait; FINISHED at the end."""
        if self._queue.exhausted:
            return str(Searcher.FINISHED)
        if self._queue.live >= self._slots():
            return None
        record = self._queue.next()
        if record is None:
            return str(Searcher.FINISHED) if self._queue.exhausted else None
        return self._queue.config(record).to_tune()

    def on_trial_complete(
        self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False
    ) -> None:
        """Does nothing: :class:`QueueCallback` records how a trial ended."""

    def save(self, checkpoint_path: str) -> None:
        """Does nothing: records are saved whenever they change."""

    def restore(self, checkpoint_path: str) -> None:
        """Does nothing."""
