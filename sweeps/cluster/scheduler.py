"""Decides for Ray Tune whether a trial continues."""

from __future__ import annotations

from typing import Any

from ray.tune.experiment import Trial
from ray.tune.schedulers import FIFOScheduler, TrialScheduler

from sweeps.cluster.shared import SharedWithTune
from sweeps.search.trial_queue import TrialQueue
from trainables.contract.report import Progressed, from_tune


class QueueScheduler(SharedWithTune, FIFOScheduler):
    """Stops the trials that :class:`~sweeps.search.pruner.Pruner` prunes."""

    def __init__(self, queue: TrialQueue) -> None:
        super().__init__()
        self._queue = queue

    def on_trial_result(self, tune_controller: Any, trial: Trial, result: dict[str, Any]) -> str:
        report = from_tune(result)
        entries = report.entries if isinstance(report, Progressed) else ()
        poor = self._queue.should_prune(trial.config["number"], entries)
        return str(TrialScheduler.STOP if poor else TrialScheduler.CONTINUE)
