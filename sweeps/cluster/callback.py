"""What Tune tells of trials: everything goes into the ledger.

Tune's own experiment snapshot and table of results are not used and not made: they grow with the
number of trials.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from ray.tune import Callback
from ray.tune.experiment import Trial

from sweeps.cluster.internals import SweepOverError, others_took_the_memory
from sweeps.search.ledger import Ledger
from trainables.report import Failed, Progressed, Waits, from_tune

logger = logging.getLogger("calsweep")


class LedgerCallback(Callback):
    """Writes results and ends of trials into the ledger, and ends Tune's loop after the last.

    Args:
        ledger: The sweep's book.
        on_shortage: Asked what to do when memory ran short while so many trials ran.
        on_notice: Told what the user should know.
    """

    def __init__(
        self,
        ledger: Ledger,
        on_shortage: Callable[[int], str] = lambda _: "goes on",
        on_notice: Callable[[str], object] = logger.warning,
    ) -> None:
        self._ledger = ledger
        self._on_shortage = on_shortage
        self._on_notice = on_notice
        self._shortage: str | None = None  # of which the trial that ends next was killed

    def __deepcopy__(self, memo: object) -> LedgerCallback:
        """Tune copies its callbacks; this one is told of trials by others too."""
        return self

    def __getstate__(self) -> dict[str, Any]:
        """Tune pickles them too, for a kind of restoring that is not used here."""
        return {}

    def on_step_end(self, iteration: int, trials: list[Trial], **_: Any) -> None:
        """Called after each turn of Tune's loop.

        Raises:
            SweepOverError: No trial is running, and none will come.
        """
        if self._ledger.exhausted:
            raise SweepOverError

    def on_trial_result(
        self, iteration: int, trials: list[Trial], trial: Trial, result: dict[str, Any], **_: Any
    ) -> None:
        """Metrics of epochs came, or the word that they cannot be written."""
        number = trial.config["number"]
        match from_tune(result):
            case Waits(reason):
                self._ledger.waiting(number, reason)
            case Progressed(entries):
                for entry in entries:
                    self._ledger.result(number, entry)

    def on_trial_complete(
        self, iteration: int, trials: list[Trial], trial: Trial, **_: Any
    ) -> None:
        """The trial ran all its epochs, was stopped by the scheduler, or gave up."""
        number = trial.config["number"]
        match from_tune(trial.last_result):
            case Failed(reason, traceback):
                logger.error("trial %d: %s", number, traceback or reason)
                self._ledger.end(number, "failed", reason)
            case Progressed(_, done=True):
                self._ledger.end(number, "finished")
            case _:
                epochs = self._ledger.record(number).epochs
                metric = self._ledger.sweep.scheduler.metric
                self._ledger.end(number, "stopped", f"{metric} too high after epoch {epochs}")

    def out_of_memory(self, reason: str) -> None:
        """The trial whose end comes next (:meth:`on_trial_error`) was killed for want of memory."""
        logger.warning("%s", reason)
        self._shortage = reason

    def on_trial_error(self, iteration: int, trials: list[Trial], trial: Trial, **_: Any) -> None:
        """The trial's process died.

        It is not left to Tune to try again: if the process dies just after its start, with two
        calls under way, Tune takes the second that breaks for the end of the trial.
        """
        number = trial.config["number"]
        running, self._shortage, shortage = self._ledger.live, None, self._shortage
        if shortage is None:
            self._ledger.died(number)
        else:
            # Of several trials that are more than the memory holds, none is the one at fault.
            alone = running == 1 and not others_took_the_memory(shortage)
            self._ledger.died(number, at_fault=alone)
            decided = self._on_shortage(running)
            self._on_notice(f"trial {number} was killed, as its node runs low on memory; {decided}")
