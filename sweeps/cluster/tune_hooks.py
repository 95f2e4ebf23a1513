"""What connects Ray Tune to the queue: it gives trials, stops them, and records how they end."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import ray
from ray.tune import Callback
from ray.tune.experiment import Trial
from ray.tune.schedulers import FIFOScheduler, TrialScheduler
from ray.tune.search import Searcher

from sweeps.cluster.silence import Silence
from sweeps.errors import cause
from sweeps.messages.reporter import LOG, Reporter, logger
from sweeps.search.trial_queue import TrialQueue
from sweeps.store.requests import Request, fulfil
from trainables.contract.messages import Failed, OutOfMemory, Progressed, Waiting, from_tune


class SweepOverError(Exception):
    """Every trial has ended; raised out of Tune's loop, which ends its actors.

    If the loop ended normally, Tune would read all results back, 20 ms for each trial.
    """


class SharedWithTune:
    """An object of the driver of which Tune's deep copies and pickles are the same object."""

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def __getstate__(self) -> dict[str, object]:
        return {}


class QueueSearcher(SharedWithTune, Searcher):
    """Gives Tune the next trial of the queue while fewer run than `slots` returns."""

    def __init__(self, queue: TrialQueue, slots: Callable[[], int]) -> None:
        super().__init__()
        self._queue = queue
        self._slots = slots

    def suggest(self, trial_id: str) -> dict[str, object] | str | None:
        """The configuration of the next trial; None to wait; FINISHED at the end."""
        if self._queue.exhausted:
            return str(Searcher.FINISHED)
        if self._queue.live >= self._slots():
            return None
        if (record := self._queue.next()) is None:
            return str(Searcher.FINISHED) if self._queue.exhausted else None
        return self._queue.config(record).to_tune()

    def on_trial_complete(
        self, trial_id: str, result: dict[str, object] | None = None, error: bool = False
    ) -> None:
        """Does nothing: :class:`QueueCallback` records how a trial ended."""

    def save(self, checkpoint_path: str) -> None:
        """Does nothing: records are saved whenever they change."""

    def restore(self, checkpoint_path: str) -> None:
        """Does nothing."""


class QueueScheduler(SharedWithTune, FIFOScheduler):
    """Stops the trials that :class:`~sweeps.search.stopping.Pruner` prunes."""

    def __init__(self, queue: TrialQueue) -> None:
        super().__init__()
        self._queue = queue
        self._controller: Any = None

    def on_trial_add(self, tune_controller: Any, trial: Trial) -> None:
        super().on_trial_add(tune_controller, trial)
        self._controller = tune_controller

    def stop_waiting(self, trial: Trial) -> None:
        """End a trial that has no process yet."""
        self._controller.request_stop_trial(trial)

    def end_processes(self) -> None:
        """End the processes of all trials, after Ctrl-C.

        Tune does so after an ``Exception``, which ``KeyboardInterrupt`` is not. In the user's own
        Ray session the processes would hold its CPUs as long as the traceback exists, and notebooks
        keep tracebacks. Tune's own handler of Ctrl-C waits until every trial has ended its epoch.
        """
        with suppress(Exception):  # an error must not replace the KeyboardInterrupt
            if self._controller is not None:
                self._controller.cleanup()

    def on_trial_result(self, tune_controller: Any, trial: Trial, result: dict[str, object]) -> str:
        report = from_tune(result)
        entries = report.entries if isinstance(report, Progressed) else ()
        poor = self._queue.should_prune(trial.config["number"], entries)
        return str(TrialScheduler.STOP if poor else TrialScheduler.CONTINUE)


@dataclass(frozen=True)
class Outside:
    """Sources of news from the cluster and its users while trials run.

    Attributes:
        check: Raises an error if another driver has the sweep.
        nodes_drain: Returns whether Ray has announced that a node will go.
        lost_nodes: Returns the names of nodes that have died since the last call.
        requests: Returns what users have asked for since the last call.
    """

    check: Callable[[], object] = lambda: None
    nodes_drain: Callable[[], bool] = lambda: False
    lost_nodes: Callable[[], list[str]] = list
    requests: Callable[[], list[Request]] = list


class QueueCallback(SharedWithTune, Callback):
    """Passes results and ends of trials to the queue, and ends Tune's loop after the last one.

    Args:
        on_shortage: Called with the number of running trials when memory ran short; returns a
            message about the reaction.

    Attributes:
        scheduler: Tune's present one.
    """

    scheduler: QueueScheduler | None = None

    def __init__(
        self,
        queue: TrialQueue,
        on_shortage: Callable[[int], str] = lambda _: "the sweep continues",
        reporter: Reporter = LOG,
        outside: Outside = Outside(),
    ) -> None:
        self._queue = queue
        self._on_shortage = on_shortage
        self._reporter = reporter
        self._silence = Silence(queue, reporter)
        self._outside = outside
        self._cancelled: set[str] = set()  # Tune's ids of trials that were ended here
        self._shortage = False  # whether the trial that ends next was killed
        self._warnings: set[str] = set()

    def on_step_end(self, iteration: int, trials: list[Trial], **_: Any) -> None:
        self._outside.check()
        if self._queue.exhausted:
            raise SweepOverError
        for number, reason in self._silence.look().items():
            self._cancel(number, trials)
            self._queue.end(number, "failed", reason)
            self._reporter.notice(f"trial {number} failed: {reason}")
        for request in self._outside.requests():
            self._obey(request, trials)
        for name in self._outside.lost_nodes():
            self._reporter.notice(f"The node {name} is lost; its trials are retried")

    def _obey(self, request: Request, trials: list[Trial]) -> None:
        for number in request.trials:
            runs = any(record.number == number for record in self._queue.running)
            if fulfil(request, number, self._queue, self._reporter) and runs:
                self._cancel(number, trials)

    def _cancel(self, number: int, trials: list[Trial]) -> None:
        """End the process of a running trial; what Tune reports of it later is known."""
        for trial in trials:
            if trial.config["number"] != number or trial.is_finished():
                continue
            self._cancelled.add(trial.trial_id)
            self._silence.ended(number)
            if (actor := trial.temporary_state.ray_actor) is not None:
                ray.kill(actor)
            elif self.scheduler is not None:
                self.scheduler.stop_waiting(trial)

    def on_trial_start(self, iteration: int, trials: list[Trial], trial: Trial, **_: Any) -> None:
        self._silence.started(trial.config["number"])

    def on_trial_result(
        self, iteration: int, trials: list[Trial], trial: Trial, result: dict[str, object], **_: Any
    ) -> None:
        """The trial reported epochs, or that it waits for the storage."""
        if trial.trial_id in self._cancelled:
            return
        number = trial.config["number"]
        self._silence.heard(number)
        match from_tune(result):
            case Waiting(reason):
                self._reporter.fault(f"trial {number} waits: {reason}")
            case Progressed(entries, _, warnings):
                self._warn(number, warnings)
                for entry in entries:
                    self._queue.result(number, entry)

    def on_trial_complete(
        self, iteration: int, trials: list[Trial], trial: Trial, **_: Any
    ) -> None:
        if trial.trial_id in self._cancelled:
            return
        number = trial.config["number"]
        self._silence.ended(number)
        match from_tune(trial.last_result):
            case Failed(reason, traceback, warnings, diverged):
                self._warn(number, warnings)
                logger.error("trial %d: %s", number, traceback or reason)
                self._queue.end(number, "failed", reason, diverged=diverged)
            case OutOfMemory(reason):
                logger.warning("trial %d: %s", number, reason)
                running = self._queue.live
                self._queue.out_of_memory(number, reason, at_fault=running == 1)
                decided = self._on_shortage(running)
                self._reporter.notice(f"trial {number} ran out of memory on its GPU; {decided}")
            case Progressed(_, done=True):
                self._queue.end(number, "finished")
            case _:
                self._queue.stop(number)

    def _warn(self, number: int, warnings: tuple[str, ...]) -> None:
        """Show the first of each warning of the workers, whose output no user sees."""
        for warning in warnings:
            if warning not in self._warnings:
                self._warnings.add(warning)
                self._reporter.notice(f"trial {number} warns: {warning}")

    def out_of_memory(self, reason: str) -> None:
        """The trial that ends next (:meth:`on_trial_error`) was killed for lack of memory."""
        logger.warning("%s", reason)
        self._shortage = True

    def on_trial_error(self, iteration: int, trials: list[Trial], trial: Trial, **_: Any) -> None:
        """The trial's process died.

        Tune's own retries may mistake a second failed call for the end of the trial, so they are
        off.
        """
        if trial.trial_id in self._cancelled:
            return
        number = trial.config["number"]
        self._silence.ended(number)
        if not self._shortage:
            at_fault = not self._outside.nodes_drain()  # else Ray announced that its node would go
            self._queue.died(number, at_fault=at_fault, reason=_error_of(trial))
            return
        self._shortage, running = False, self._queue.live
        # If several trials together exceed the memory, none of them alone is at fault.
        self._queue.died(number, at_fault=running == 1)
        decided = self._on_shortage(running)
        self._reporter.notice(
            f"trial {number} was killed, as its node runs low on memory; {decided}"
        )


def _error_of(trial: Trial) -> str | None:
    """The Python error that ended a trial's process, such as of an import; None without one."""
    try:
        error = Path(trial.error_file).read_text("utf-8", errors="replace")
    except (OSError, TypeError):
        return None
    if '  File "' not in error:  # no traceback: the process was killed
        return None
    return f"its process failed repeatedly, the last time by {cause(RuntimeError(error))}"
