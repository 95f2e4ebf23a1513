"""The pilot's part of a run: it finds the number of epochs of all trials, before the sweep."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from sweeps.errors import SweepFailedError
from sweeps.evidence.learning import FirstEpochs
from sweeps.messages.formatting import counted
from sweeps.search.pilot import ACTION, PilotQueue, common_epochs, next_epochs, progress_of
from sweeps.search.plan import Plan
from sweeps.search.record import TrialRecord
from sweeps.search.trial_queue import Past, TrialQueue
from sweeps.service.backend import RunningSweep, interrupted, load_records, train
from sweeps.store.sweep_store import SweepStore
from trainables.files.rows import Rows


def run_pilot(
    running: RunningSweep, first_epochs: FirstEpochs, log: Path
) -> tuple[RunningSweep, list[TrialRecord]]:
    """Train the pilot; returns the sweep with the number of epochs that it finds, and its records.

    The stored sweep file gets that number too. Without ``training.patience`` there is no pilot, and
    the plan stays as it is. A pilot that was cut off continues, one that failed is run again, and
    one that has ended is only read.

    Raises:
        SweepFailedError: The pilot failed, as the baseline would.
    """
    plan, store, progress = running.plan, running.store, running.progress
    if plan.sweep.training.patience is None:
        return running, []
    most = plan.epochs
    alone = _Alone(running, store.pilot(), ACTION)
    queue = alone.train(
        PilotQueue,
        listeners=(
            lambda record: progress.left(progress_of(record.epochs, most)),
            first_epochs.take,
        ),
    )
    if queue.cut_short:  # no hours are left for the sweep either
        queue.interrupted()
        return running, queue.records
    (pilot,) = queue.records
    if pilot.state == "failed":
        raise SweepFailedError(
            f"the baseline failed, so no trial of {plan.name!r} was started:\n"
            f"  {pilot.reason}\nmore is in the log, {log}"
        )
    plan = plan.with_epochs(common_epochs(pilot, plan.sweep.training))
    if alone.runs:
        progress.notice(_found(plan, pilot, most))
    running, others = _beyond_limit(replace(running, plan=plan), pilot)
    if running.plan.epochs != plan.epochs:
        progress.notice(
            f"All trials train for {counted(running.plan.epochs, 'epoch')}: with {plan.epochs} the "
            "validation NLL of the baseline is higher, by more than chance."
        )
    store.change(running.plan.sweep)
    alone.store.delete_checkpoints()
    return running, [pilot, *others]


@dataclass
class _Alone:
    """One training of the baseline before the sweep, in a store of its own.

    Attributes:
        running: The sweep, with the plan of this training.
        action: What is shown.
        before: Trainings before it, whose time and epochs count.
        runs: Whether it was not only read.
    """

    running: RunningSweep
    store: SweepStore
    action: str
    before: Sequence[TrialRecord] = ()
    runs: bool = False

    def train(
        self,
        make: type[TrialQueue] = TrialQueue,
        listeners: tuple[Callable[[TrialRecord], None], ...] = (),
    ) -> TrialQueue:
        """The queue with its record, which has ended unless the queue is cut short."""
        running, own = self.running, self.store
        records = own.patiently(load_records, running.plan, own, running.progress.notice)
        queue = make(
            running.plan.of_pilot,
            own.save,
            running.data.num_classes,
            Past([r for r in records if r.state != "failed"], pilot=self.before),
        )
        queue.listeners += listeners
        self.runs = not queue.exhausted
        if self.runs:
            running.progress.stage(self.action)
            try:
                train(replace(running, store=own), queue, None)
            except KeyboardInterrupt:
                raise interrupted(running.store) from None
        return queue


def _beyond_limit(
    running: RunningSweep, pilot: TrialRecord
) -> tuple[RunningSweep, list[TrialRecord]]:
    """Halve or double the epochs while whole trainings show that this is better.

    A training that fails or is cut short ends the search for another number.
    """
    from trainables.trials.kept_epoch import epoch_losses, is_better

    training, store, records = running.plan.sweep.training, running.store, [pilot]

    def whole(epochs: int) -> Rows | None:
        plan = running.plan.with_epochs(epochs)
        action = f"Training the baseline for {counted(epochs, 'epoch')}"
        alone = _Alone(replace(running, plan=plan), store.pilot(epochs), action, tuple(records))
        queue = alone.train()
        if queue.cut_short:
            queue.interrupted()
        records.extend(queue.records)
        if any(record.state != "finished" for record in queue.records):
            return None
        alone.store.delete_checkpoints()
        return Rows.read(alone.store.trial_folder(0), "validation")

    best = None
    while (epochs := next_epochs(running.plan.epochs, pilot, training)) is not None:
        if best is None:
            own = store.pilot().trial_folder(0)
            known = pilot.state == "finished"
            best = Rows.read(own, "validation") if known else whole(running.plan.epochs)
        other = None if best is None else whole(epochs)
        if best is None or other is None:
            break
        units = best.units()
        ours, theirs = (
            epoch_losses(each.tensors(), refined=True, units=units) for each in (other, best)
        )
        if not is_better(ours, theirs, best.tensors(), units):
            break
        running, best = replace(running, plan=running.plan.with_epochs(epochs)), other
    return running, records[1:]


def _found(plan: Plan, pilot: TrialRecord, most: int) -> str:
    if pilot.state != "stopped":
        return f"All trials train for {counted(most, 'epoch')}, as training.epochs says."
    patience = plan.sweep.training.patience
    assert patience is not None
    return (
        f"All trials train for {counted(plan.epochs, 'epoch')}: there the baseline's validation "
        f"NLL, a mean over {counted(patience, 'epoch')}, is lowest."
    )
