"""What Ray Tune calls while a sweep runs: the searcher, the scheduler and the callback.

All three are thin: what to run and what came of it is in the :class:`~sweeps.search.ledger.Ledger`.
Tune's own experiment snapshot and table of results are not used and not made: they grow with the
number of trials.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from ray.tune import Callback
from ray.tune.experiment import Trial
from ray.tune.schedulers import ASHAScheduler, FIFOScheduler, TrialScheduler
from ray.tune.search import Searcher

from sweeps.search.ledger import Ledger
from sweeps.search.record import TrialRecord
from sweeps.sweep_file.schema import SweepFile

logger = logging.getLogger("calsweep")


class SweepOverError(Exception):
    """Every trial has ended.

    Raised out of Tune's loop, which then ends its actors and passes it on. A loop that runs out
    instead writes a snapshot of all trials and reads all their results back, some 20 ms for each.
    """


class LedgerSearcher(Searcher):
    """Hands the ledger's next trial to Tune, as long as there is a free slot for it.

    Args:
        ledger: The sweep's book.
        slots: How many trials may run at once, now.
    """

    def __init__(self, ledger: Ledger, slots: Callable[[], int]) -> None:
        super().__init__()
        self._ledger = ledger
        self._slots = slots

    def suggest(self, trial_id: str) -> dict[str, Any] | str | None:
        """The configuration of the next trial; None to wait; FINISHED at the end."""
        if self._ledger.exhausted:
            return str(Searcher.FINISHED)
        if self._ledger.live >= self._slots():
            return None
        record = self._ledger.next()
        if record is None:
            return str(Searcher.FINISHED) if self._ledger.exhausted else None
        return {
            "number": record.number,
            "role": record.role,
            "loss": record.loss,
            "hyperparameters": record.hyperparameters,
            "seed": record.seed,
        }

    def on_trial_complete(
        self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False
    ) -> None:
        """Nothing to do: :class:`LedgerCallback` writes down how a trial ended."""

    def save(self, checkpoint_path: str) -> None:
        """Nothing to save: the ledger's records are written as they come."""

    def restore(self, checkpoint_path: str) -> None:
        """Nothing to restore."""


class LedgerCallback(Callback):
    """Writes results and ends of trials into the ledger, and ends Tune's loop after the last."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

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
        if "waiting" in result:
            self._ledger.waiting(trial.config["number"], result["waiting"])
        elif "failure" not in result:
            for entry in json.loads(result["entries"]):
                self._ledger.result(trial.config["number"], entry)

    def on_trial_complete(
        self, iteration: int, trials: list[Trial], trial: Trial, **_: Any
    ) -> None:
        """The trial ran all its epochs, was stopped by the scheduler, or gave up."""
        number, result = trial.config["number"], trial.last_result
        epochs = self._ledger.epochs(self._ledger.records[number])
        if "failure" in result:
            logger.error("trial %d: %s", number, result.get("traceback", result["failure"]))
            self._ledger.end(number, "failed", result["failure"])
        elif result.get("epoch", 0) >= epochs:
            self._ledger.end(number, "finished")
        else:
            metric = self._ledger.sweep.scheduler.metric
            self._ledger.end(
                number, "stopped", f"{metric} too high after epoch {result.get('epoch', 0)}"
            )

    def on_trial_error(self, iteration: int, trials: list[Trial], trial: Trial, **_: Any) -> None:
        """The trial's process died.

        It is not left to Tune to try again: if the process dies just after its start, with two
        calls under way, Tune takes the second that breaks for the end of the trial.
        """
        self._ledger.died(trial.config["number"])


class GuardedASHA(FIFOScheduler):
    """ASHA within each loss, that never stops an encoder, the baseline or a finalist.

    A net trained with, say, focal loss has a high NLL by construction, so trials of different
    losses do not compete at the rungs; which loss deserves more trials is for the sampler to find.
    Results from before a resume are entered again.

    Args:
        ledger: The sweep's book.
    """

    def __init__(self, ledger: Ledger) -> None:
        super().__init__()
        self._ledger = ledger
        self._by_loss: dict[str, ASHAScheduler] = {}
        for record in ledger.records:
            if record.state != "running" and record.searched:
                self._enter(record, record.history)

    def on_trial_add(self, tune_controller: Any, trial: Trial) -> None:
        """Enter a trial, with the results it had before it was cut off.

        Not with the last of them, by which it may not have been judged: the trial reports all of
        them once more, and is judged by what is new then.
        """
        record = self._ledger.records[trial.config["number"]]
        if record.searched:
            self._enter(record, record.history[:-1])

    def on_trial_result(self, tune_controller: Any, trial: Trial, result: dict[str, Any]) -> str:
        """Continue or stop; only the results of the search enter the rungs."""
        record = self._ledger.records[trial.config["number"]]
        if not record.searched or "entries" not in result:
            return str(TrialScheduler.CONTINUE)
        decisions = [self._judge(record, entry) for entry in json.loads(result["entries"])]
        stop = record.role != "baseline" and TrialScheduler.STOP in decisions
        return str(TrialScheduler.STOP if stop else TrialScheduler.CONTINUE)

    def _enter(self, record: TrialRecord, history: list[dict[str, float]]) -> None:
        self._asha(record.loss).on_trial_add(None, _competitor(record))
        for entry in history:
            self._judge(record, entry)

    def _judge(self, record: TrialRecord, result: dict[str, Any]) -> str:
        return str(self._asha(record.loss).on_trial_result(None, _competitor(record), result))

    def _asha(self, loss: str) -> ASHAScheduler:
        sweep = self._ledger.sweep
        if loss not in self._by_loss:
            self._by_loss[loss] = ASHAScheduler(
                time_attr="epoch",
                metric=sweep.scheduler.metric,
                mode="min",
                grace_period=sweep.rungs[0],
                # Ray counts the rungs by int(log(max_t / grace) / log(factor)), which from a last
                # rung of 243 gives 4.999…, a rung too few; half an epoch more gives what is meant.
                max_t=sweep.rungs[-1] + 0.5,
                reduction_factor=sweep.scheduler.reduction_factor,
                stop_last_trials=False,
            )
        return self._by_loss[loss]


def _competitor(record: TrialRecord) -> Any:
    """A trial as ASHA knows it: the same after its process died, when it is a new one to Tune."""
    return SimpleNamespace(trial_id=f"trial {record.number}")


def make_scheduler(sweep: SweepFile, ledger: Ledger) -> TrialScheduler | None:
    """The sweep's scheduler; None (all trials run to their end) where it could stop nothing."""
    return GuardedASHA(ledger) if sweep.rungs else None
