"""What is done with a sweep that need not run: shown, listed, reported, mirrored again, deleted."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sweeps.errors import SweepFailedError, UserError, first_line
from sweeps.results.comparison import Comparison
from sweeps.results.explanation import answer
from sweeps.results.overview import Overview, overview
from sweeps.results.report import render_report
from sweeps.search.ranking import Ranking
from sweeps.store.identity import read_environment
from sweeps.store.sweep_store import SweepStore, sweep_names
from sweeps.tracking.address import check_answers, tracking_uri
from sweeps.tracking.artifacts import ArtifactError
from sweeps.tracking.mirror import Mirror, RunDeletedError, RunRefusedError
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


def sync_sweep(name: str, storage: str) -> SyncResult:
    """Bring MLflow up to date with what the sweep store knows.

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
        deleted = 0
        try:
            mirror.connect()
            for record in records:
                try:
                    mirror.sync(record)
                except RunDeletedError:
                    deleted += 1
                except (ArtifactError, RunRefusedError) as error:
                    left.append(str(error))
            if all(record.state != "running" for record in records):
                ranking, comparisons = Ranking(records, sweep.rule), _comparisons(store)
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


def read_answer(name: str, storage: str) -> tuple[dict[str, Any], bool]:
    """What a sweep came to (see :func:`~sweeps.results.explanation.answer`), and whether for good.

    Raises:
        UserError: There is no such sweep, or none of its trials has begun.
    """
    store = SweepStore(storage, name)
    sweep = store.load_sweep()
    records = store.load_records()
    if not records:
        raise UserError(f"sweep {name!r} has no trial yet; `calsweep resume {name}` begins")
    finished = store.load_answer() is not None
    return answer(Ranking(records, sweep.rule), sweep, _comparisons(store)), finished


def _comparisons(store: SweepStore) -> list[Comparison]:
    """Those that the sweep made at its end."""
    kept = store.load_answer() or {}
    return [Comparison(**values) for values in kept.get("comparisons", ())]


def overviews(storage: str) -> list[Overview]:
    """The sweeps of a storage, the latest first."""
    found = []
    for name in sweep_names(storage):
        store = SweepStore(storage, name)
        finished = store.load_answer() is not None
        found.append(overview(store.load_sweep(), store.load_records(), finished))
    return sorted(found, key=lambda each: each.started or math.inf, reverse=True)


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


def write_report(name: str, storage: str, output: str | None = None) -> str:
    """Write the report of a sweep, finished or not.

    Args:
        name: Name of the sweep.
        storage: Path or URI of the sweep store.
        output: Path of the HTML file; ``<name>-report.html`` here if None.

    Returns:
        The path written.

    Raises:
        UserError: There is no such sweep, or the file cannot be written.
    """
    store = SweepStore(storage, name)
    sweep = store.load_sweep()
    path = Path(output or f"{name}-report.html").absolute()
    page = render_report(
        sweep,
        store.load_records(),
        _comparisons(store),
        lambda number: store.trial_folder(number).read("predictions_test.parquet"),
        read_environment(store.folder),
    )
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        temporary.write_text(page, encoding="utf-8")
        temporary.replace(path)
    except OSError as error:
        raise UserError(f"--output {path}: cannot be written: {error.strerror}") from None
    return str(path)
