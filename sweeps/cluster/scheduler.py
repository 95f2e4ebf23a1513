"""What Tune asks whether a trial is to go on."""

from __future__ import annotations

from typing import Any

from ray.tune.experiment import Trial
from ray.tune.schedulers import FIFOScheduler, TrialScheduler

from sweeps.search.ledger import Ledger
from trainables.report import Progressed, from_tune


class LedgerScheduler(FIFOScheduler):
    """Stops the trials that the ledger's :class:`~sweeps.search.stopping.Stopper` finds poor.

    Args:
        ledger: The sweep's book.
    """

    def __init__(self, ledger: Ledger) -> None:
        super().__init__()
        self._ledger = ledger

    def on_trial_result(self, tune_controller: Any, trial: Trial, result: dict[str, Any]) -> str:
        """Continue or stop."""
        report = from_tune(result)
        entries = report.entries if isinstance(report, Progressed) else ()
        poor = self._ledger.judge(trial.config["number"], entries)
        return str(TrialScheduler.STOP if poor else TrialScheduler.CONTINUE)
