"""What trains the trials of a sweep, Ray Tune or this process, and what it continues from."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from sweeps.errors import SweepInterruptedError
from sweeps.messages.formatting import resume_command
from sweeps.messages.reporter import Reporter
from sweeps.planning.gpu_share import Machines
from sweeps.search import clock
from sweeps.search.plan import Plan
from sweeps.search.record import TrialRecord
from sweeps.store.journal import note
from sweeps.store.sweep_store import SweepStore
from trainables.contract.config import EncoderSetup, TrialSetup, trial_setting

if TYPE_CHECKING:
    from sweeps.search.trial_queue import Listener, TrialQueue  # imports Optuna
    from sweeps.terminal.progress import Progress
    from trainables.data.core.base import Data


class Backend(Machines, Protocol):
    """Trains the trials of a queue on its machines."""

    @property
    def start(self) -> str:
        """What :meth:`started` does, in words."""

    def started(self, reporter: Reporter) -> AbstractContextManager[None]:
        """Context in which trials can be trained; the call imports what its start needs."""

    def run(
        self,
        queue: TrialQueue,
        setup: TrialSetup,
        data: Data,
        store: SweepStore,
        reporter: Reporter,
    ) -> None:
        """Run the queue's trials until it is exhausted.

        Raises:
            SweepFailedError: The sweep makes no progress.
            UserError: Another process runs the sweep now.
        """


@dataclass(frozen=True)
class RunningSweep:
    """A sweep that runs, and what it works with.

    Attributes:
        code: The digest of the user's code.
        listeners: Called with a record whenever it has changed.
    """

    plan: Plan
    store: SweepStore
    data: Data
    backend: Backend
    progress: Progress
    code: str
    listeners: tuple[Listener, ...] = ()


def train(running: RunningSweep, queue: TrialQueue, encoder: EncoderSetup | None) -> None:
    """Run the queue's trials, see :meth:`Backend.run`."""
    store = running.store
    setup = _trial_setup(queue, store, store.patiently(store.sweep_id), encoder)
    running.backend.run(queue, setup, running.data, store, running.progress)


def _trial_setup(
    queue: TrialQueue, store: SweepStore, sweep_id: str, encoder: EncoderSetup | None
) -> TrialSetup:
    sweep = queue.plan.sweep
    return TrialSetup(
        model=sweep.trained.name,
        model_options=sweep.trained.options,
        training=sweep.training.config(),
        trials_uri=store.trials_folder.uri,
        outcome_epochs=queue.outcome_epochs,
        deciding_metrics=queue.plan.rule.deciding,
        own_metrics=sweep.search.own_metrics,
        threads=sweep.scaling.cpus_per_worker,
        user_paths=(str(Path.cwd()),),
        encoder=encoder,
        marker=(store.folder.uri, sweep_id),
        own_loop=sweep.trainable is not None,
        gpu_share=sweep.scaling.gpus,
        scaling=queue.plan.rule.scaling,
        training_temperature=sweep.scaling_method.training_temperature,
    )


def load_records(plan: Plan, store: SweepStore, notice: Callable[[str], None]) -> list[TrialRecord]:
    """The stored trials; messages about damaged ones are passed to `notice`."""
    return [with_history(plan, store, each) for each in store.load_records(notice)]


def with_history(plan: Plan, store: SweepStore, record: TrialRecord) -> TrialRecord:
    """The record of an interrupted trial, with the epochs in its last checkpoint."""
    if record.state == "running":
        from trainables.files.checkpoints import load_checkpoint

        setting = trial_setting(plan.sweep.trained.name, plan.sweep.trained.options, record.config)
        state = load_checkpoint(store.trial_folder(record.number) / "checkpoints", setting)
        record.cut_off(state["history"] if state else (), clock.time())
    return record


def interrupted(store: SweepStore) -> SweepInterruptedError:
    """The error of an interrupted sweep, which is noted in its journal."""
    note(store.folder, "interrupted")
    again = resume_command(store.name, store.storage)
    return SweepInterruptedError(f"interrupted; {again} continues it")
