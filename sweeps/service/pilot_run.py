"""The pilot's part of a run: it finds the number of epochs of all trials, before the sweep."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sweeps.errors import SweepFailedError
from sweeps.evidence.learning import FirstEpochs
from sweeps.messages.formatting import counted
from sweeps.search.pilot import ACTION, PilotQueue, common_epochs, progress_of
from sweeps.search.record import TrialRecord
from sweeps.service.backend import Backend, train
from sweeps.store.resuming import interrupted, load_records
from sweeps.store.sweep_store import SweepStore
from sweeps.sweep_file.schema import SweepFile
from sweeps.terminal.progress import Progress

if TYPE_CHECKING:
    from trainables.data.core.base import Data


def with_common_epochs(
    sweep: SweepFile,
    store: SweepStore,
    dataset: Data,
    backend: Backend,
    progress: Progress,
    first_epochs: FirstEpochs,
    log: Path,
) -> tuple[SweepFile, list[TrialRecord]]:
    """The sweep with the number of epochs that its pilot finds, and the pilot's record.

    The stored sweep file gets that number too. A pilot that was cut off continues, one that failed
    is run again, and one that has ended is only read.

    Raises:
        SweepFailedError: The pilot failed, as the baseline would.
    """
    most, patience = sweep.training.epochs, sweep.training.patience
    if patience is None:
        return sweep, []
    own = store.pilot()
    records = own.patiently(load_records, sweep, own, progress.notice)
    queue = PilotQueue(
        sweep,
        own.save,
        dataset.num_classes,
        [record for record in records if record.state != "failed"],
        listeners=(
            lambda record: progress.left(progress_of(record.epochs, most)),
            first_epochs.take,
        ),
    )
    runs = not queue.exhausted
    if runs:
        progress.stage(ACTION)
        try:
            train(backend, queue, dataset, own, None, progress)
        except KeyboardInterrupt:
            raise interrupted(store) from None
    if queue.cut_short:  # no hours are left for the sweep either
        queue.interrupted()
        return sweep, queue.records
    (pilot,) = queue.records
    if pilot.state == "failed":
        raise SweepFailedError(
            f"the baseline failed, so no trial of {sweep.name!r} was started:\n  {pilot.reason}\n"
            f"more is in the log, {log}"
        )
    epochs = common_epochs(pilot, sweep)
    sweep = sweep.model_copy(
        update={"training": sweep.training.model_copy(update={"epochs": epochs})}
    )
    store.change(sweep)
    own.delete_checkpoints()
    if runs:
        progress.notice(
            f"All trials train for {counted(epochs, 'epoch')}: there the baseline's validation "
            f"NLL, a mean over {counted(patience, 'epoch')}, is lowest."
            if pilot.state == "stopped"
            else f"All trials train for {counted(most, 'epoch')}, as training.epochs says."
        )
    return sweep, queue.records
