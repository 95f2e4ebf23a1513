"""Maintenance of sweeps that do not run: writing to MLflow, deleting."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sweeps.errors import SweepFailedError
from sweeps.messages.formatting import calsweep_command
from sweeps.messages.reporter import LOG, Reporter
from sweeps.search.ranking import Ranking
from sweeps.service.ending import ending_with
from sweeps.service.reading.stored import StoredSweep
from sweeps.store.storage import tells_storage_faults
from sweeps.store.sweep_store import SweepStore
from sweeps.tracking.address import check_answers
from sweeps.tracking.deleting import delete_runs
from sweeps.tracking.kept_address import tracking_uri_of
from sweeps.tracking.mirror import Mirror
from sweeps.tracking.sqlite import sqlite_path
from sweeps.tracking.writer import MlflowWriter

_PATIENCE_SECONDS = 20.0  # without progress, while MLflow fails
Scope = Literal["checkpoints", "sweep", "sweep and runs"]


@dataclass(frozen=True)
class SyncResult:
    """The result of :func:`sync_sweep`: trials, and how many of them have deleted runs."""

    trials: int
    deleted: int


@tells_storage_faults
def sync_sweep(name: str, storage: str, reporter: Reporter = LOG) -> SyncResult:
    """Bring MLflow up to date with the sweep store.

    Raises:
        UserError: There is no such sweep, it is being run, or MLflow does not answer.
        SweepFailedError: The files of some trials are damaged, or MLflow refuses their runs;
            everything else is up to date. Or MLflow stopped answering.
    """
    store = SweepStore(storage, name)
    plan = store.load_plan()
    check_answers(tracking_uri_of(store, plan.sweep.tracking.uri))
    with store.locked():
        left: list[str] = []
        records = store.load_records(left.append)
        sweep = StoredSweep(store, plan, Ranking(records, plan.rule))
        writer = MlflowWriter(Mirror(plan, store, look_for_files=True), reporter)
        for record in records:
            writer.submit(record)
        writer.close(_PATIENCE_SECONDS, ending_with(sweep) if sweep.has_ended else None)
    outbox = writer.outbox
    if any(outbox.lacking):
        raise SweepFailedError(
            f"MLflow is not up to date: {writer.fault}; "
            f"{calsweep_command(f'sync {name}', storage)} continues from here"
        )
    left += outbox.refused.values()
    if left:
        raise SweepFailedError("not in MLflow in full:\n" + "\n".join(left))
    return SyncResult(len(records), len(outbox.deleted))


@tells_storage_faults
def check_left(name: str, storage: str) -> None:
    """Raises UserError if there is no such sweep, not even one that is partly deleted."""
    store = SweepStore(storage, name)
    if not store.is_left():
        store.load_sweep()


def delete_sweep(name: str, storage: str, scope: Scope = "sweep") -> int:
    """Delete a sweep, even if partly deleted, or only its checkpoints.

    Returns the number of runs that were deleted in MLflow. They stay if a model of theirs is
    registered.

    Raises:
        UserError: There is no such sweep, it is being run, or MLflow does not answer or refuses.
    """
    store = SweepStore(storage, name)
    if scope == "checkpoints":
        store.load_sweep()
    check_left(name, storage)
    with store.locked():
        if scope == "checkpoints":
            store.delete_checkpoints()
            return 0
        runs = _delete_runs(store) if scope == "sweep and runs" and store.exists() else 0
        store.delete()
    return runs


def _delete_runs(store: SweepStore) -> int:
    uri = tracking_uri_of(store, store.load_sweep().tracking.uri)
    check_answers(uri)
    if (path := sqlite_path(uri)) is not None and not path.exists():  # connecting would make one
        return 0
    return delete_runs(uri, store.sweep_id())
