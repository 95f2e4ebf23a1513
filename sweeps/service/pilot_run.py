"""The pilot's part of a run: it finds the number of epochs of all trials, before the sweep."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from sweeps.errors import SweepFailedError
from sweeps.evidence.learning import FirstEpochs
from sweeps.messages.formatting import counted
from sweeps.search.pilot import ACTION, PilotQueue, common_epochs, progress_of
from sweeps.search.plan import Plan
from sweeps.search.record import TrialRecord
from sweeps.search.trial_queue import Past
from sweeps.service.backend import RunningSweep, interrupted, load_records, train


def run_pilot(
    running: RunningSweep, first_epochs: FirstEpochs, log: Path
) -> tuple[RunningSweep, list[TrialRecord]]:
    """Train the pilot; returns the sweep with the number of epochs that it finds, and its record.

    The stored sweep file gets that number too. Without ``training.patience`` there is no pilot, and
    the plan stays as it is. A pilot that was cut off continues, one that failed is run again, and
    one that has ended is only read.

    Raises:
        SweepFailedError: The pilot failed, as the baseline would.
    """
    plan, store, progress = running.plan, running.store, running.progress
    if plan.sweep.training.patience is None:
        return running, []
    own, most = store.pilot(), plan.epochs
    records = own.patiently(load_records, plan, own, progress.notice)
    queue = PilotQueue(
        plan.of_pilot,
        own.save,
        running.data.num_classes,
        Past([record for record in records if record.state != "failed"]),
        listeners=(
            lambda record: progress.left(progress_of(record.epochs, most)),
            first_epochs.take,
        ),
    )
    runs = not queue.exhausted
    if runs:
        progress.stage(ACTION)
        try:
            train(replace(running, store=own), queue, None)
        except KeyboardInterrupt:
            raise interrupted(store) from None
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
    store.change(plan.sweep)
    own.delete_checkpoints()
    if runs:
        progress.notice(_found(plan, pilot, most))
    return replace(running, plan=plan), queue.records


def _found(plan: Plan, pilot: TrialRecord, most: int) -> str:
    if pilot.state != "stopped":
        return f"All trials train for {counted(most, 'epoch')}, as training.epochs says."
    patience = plan.sweep.training.patience
    assert patience is not None
    return (
        f"All trials train for {counted(plan.epochs, 'epoch')}: there the baseline's validation "
        f"NLL, a mean over {counted(patience, 'epoch')}, is lowest."
    )
