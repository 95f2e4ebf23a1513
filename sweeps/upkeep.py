"""What is done with a sweep that need not run: mirrored again, deleted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sweeps.errors import SweepFailedError, first_line
from sweeps.results.explanation import answer
from sweeps.search.ranking import Ranking
from sweeps.search.record import TrialRecord
from sweeps.store.stored_sweeps import load_comparisons
from sweeps.store.sweep_store import SweepStore, tells_storage_faults
from sweeps.tracking.address import check_answers, tracking_uri
from sweeps.tracking.artifacts import ArtifactError, FilesAwayError
from sweeps.tracking.mirror import TOGETHER, Mirror, RunDeletedError, RunRefusedError
from sweeps.tracking.story import Ending


@dataclass(frozen=True)
class SyncResult:
    """What :func:`sync_sweep` did.

    Attributes:
        trials: How many there are.
        deleted: How many of them stay out of MLflow, as their runs were deleted there.
    """

    trials: int
    deleted: int


@tells_storage_faults
def sync_sweep(
    name: str, storage: str, on_left: Callable[[int], object] = lambda _: None
) -> SyncResult:
    """Bring MLflow up to date with what the sweep store knows.

    Args:
        name: Name of the sweep.
        storage: Where it is.
        on_left: Told before each trial how many are left.

    Raises:
        UserError: There is no such sweep, it is being run, or MLflow does not answer.
        SweepFailedError: The files of some trials are damaged, or MLflow refuses their runs; all
            else is up to date. Or MLflow stopped answering.
    """
    store = SweepStore(storage, name)
    sweep = store.load_sweep()
    check_answers(tracking_uri(storage, sweep))
    with store.locked():
        left: list[str] = []
        records = store.load_records(left.append)
        mirror = Mirror(sweep, store)
        try:
            mirror.connect()
            deleted = _sync_trials(mirror, records, on_left, left.append)
            if all(record.state != "running" for record in records):
                ranking, comparisons = Ranking(records, sweep.rule), load_comparisons(store)
                found = answer(ranking, sweep, comparisons)
                ending = Ending("FINISHED", ranking, comparisons, found)
                mirror.answer(ending)
                mirror.end(ending)
        except RunRefusedError as error:  # the sweep's own
            left.append(str(error))
        except Exception as error:  # whatever MLflow or the network raises
            raise SweepFailedError(
                f"MLflow is not up to date: {first_line(error)}; `calsweep sync {name}` goes on "
                "from here"
            ) from error
    if left:
        raise SweepFailedError("not in MLflow in full:\n" + "\n".join(left))
    return SyncResult(len(records), deleted)


def _sync_trials(
    mirror: Mirror,
    records: Sequence[TrialRecord],
    on_left: Callable[[int], object],
    on_fault: Callable[[str], object],
) -> int:
    """Bring the runs of trials up to date; how many of them were deleted in MLflow."""
    deleted = 0
    for done, record in enumerate(records):
        on_left(len(records) - done)
        if done % TOGETHER == 0:
            mirror.show_together(records[done : done + TOGETHER])
        try:
            mirror.sync(record)
        except RunDeletedError:
            deleted += 1
        except (ArtifactError, FilesAwayError, RunRefusedError) as error:
            on_fault(str(error))
    return deleted


@tells_storage_faults
def delete_sweep(name: str, storage: str, checkpoints: bool = False) -> None:
    """Delete a sweep from the storage, or its checkpoints alone.

    Raises:
        UserError: There is no such sweep, or it is being run.
    """
    store = SweepStore(storage, name)
    store.load_sweep()
    with store.locked():
        if checkpoints:
            store.delete_checkpoints()
        else:
            store.delete()
