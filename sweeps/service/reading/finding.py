"""Reads sweeps, finished or not: results and best settings.

All functions raise UserError if there is no such sweep or the storage cannot be read.
"""

from __future__ import annotations

import math
import os
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Final

from sweeps.errors import UserError
from sweeps.messages.documents import document
from sweeps.messages.formatting import resume_command
from sweeps.results.best import BestEntry, best_settings
from sweeps.results.result import SweepResult
from sweeps.results.side_by_side import Beside
from sweeps.results.so_far import Glimpse, ListedSweep, SweepState, overview, so_far
from sweeps.search.plan import Plan
from sweeps.search.ranking import Ranking
from sweeps.search.record import TrialRecord
from sweeps.service.reading.stored import (
    StoredSweep,
    read_stored_file,
    stored_sweeps,
)
from sweeps.store.journal import owner_of, read_journal
from sweeps.store.state import failure_of, state_of
from sweeps.store.storage import sweep_names, tells_storage_faults
from sweeps.store.sweep_store import SweepStore, of_each_sweep
from sweeps.tracking.address import tracking_uri
from trainables.contract.messages import COSTS
from trainables.plugins.arguments import few

_SECONDS: Final = {"h": 3600, "d": 86400, "w": 7 * 86400}
# Of a trial in a document.
_KEYS: Final = ("number", "role", "loss", "seed", "state", "reason", "started", "ended", "epochs")


@tells_storage_faults
def read_sweep_with_trials(name: str, storage: str) -> StoredSweep:
    """A sweep, finished or not, that has a trial; UserError if it has none."""
    sweep = StoredSweep.read(name, storage)
    if not sweep.ranking.records:
        begin = resume_command(name, storage)
        raise UserError(f"sweep {name!r} has no trial yet; {begin} begins")
    return sweep


@tells_storage_faults
def read_answer(name: str, storage: str) -> tuple[StoredSweep, SweepResult, bool]:
    """A sweep, its result, and whether that is final."""
    sweep = read_sweep_with_trials(name, storage)
    for record in sweep.ranking.records:
        if record.state == "running" and (done := sweep.store.epochs_done(record.number)):
            record.history = [{"epoch": done}]  # the record of a trial is written when it ends
    return sweep, sweep.result, sweep.has_ended


@tells_storage_faults
def read_state(name: str, storage: str) -> SweepState:
    return state_of(SweepStore(storage, name))


@tells_storage_faults
def read_pilot(name: str, storage: str) -> str | None:
    """The progress of a sweep's pilot; None if it has ended or there is none.

    Raises:
        UserError: There is no such sweep.
    """
    store = SweepStore(storage, name)
    return _progress_of_pilot(store, store.load_plan())


def _progress_of_pilot(store: SweepStore, plan: Plan) -> str | None:
    own = store.pilot()
    for record in own.load_records(lambda _: None):  # it may be in the middle of a write
        if record.state == "running":
            from sweeps.search.pilot import progress_of  # imports Optuna

            return progress_of(own.epochs_done(record.number), plan.epochs)
    return None


@tells_storage_faults
def look_at(name: str, storage: str) -> Glimpse:
    """The state of a sweep now, wherever it runs."""
    store = SweepStore(storage, name)
    plan = store.load_plan()
    records = store.load_records(lambda _: None)  # it may be in the middle of a write
    full = plan.epochs
    encoder = plan.sweep.encoder.training.epochs if plan.sweep.encoder else full
    running = [
        (r.label, store.epochs_done(r.number), encoder if r.role == "encoder" else full)
        for r in records
        if r.state == "running"
    ]
    done = sum(r.epochs for r in records if r.state != "running")
    ranking = Ranking(records, plan.rule)
    return Glimpse(
        overview(plan, ranking, state_of(store)),
        so_far(ranking),
        plan.most_trials,
        running,
        done + sum(epochs for _, epochs, _ in running),
        _progress_of_pilot(store, plan),
    )


@tells_storage_faults
def side_by_side(names: Sequence[str], storage: str) -> list[Beside]:
    sweeps = [read_sweep_with_trials(name, storage) for name in names]
    return [Beside(each.plan.sweep, each.ranking, each.store.verdict) for each in sweeps]


@dataclass(frozen=True)
class Found:
    """The result of :func:`find_best`: entries, and what reads the sweep file that found one."""

    entries: list[BestEntry]
    read_sweep_file: Callable[[BestEntry], str]


@tells_storage_faults
def find_best(
    storage: str, dataset: str | None = None, model: str | None = None, objective: str | None = None
) -> Found:
    """The best setting of each dataset, model and objective, or of the given ones.

    It reads the sweeps in the storage. If there are none, or ``MLFLOW_TRACKING_URI`` names a shared
    server, it reads the sweeps in MLflow.
    """

    def read(entry: BestEntry) -> str:
        if is_here:
            return read_stored_file(storage, entry.sweep)
        return read_sweep_file(place, str(entry.parent_run_id))

    is_here = bool(sweep_names(storage)) and not os.environ.get("MLFLOW_TRACKING_URI")
    if is_here:
        place, sweeps_of = storage, partial(stored_sweeps, storage)
    else:
        from sweeps.tracking.reader import read_sweep_file, tracked_sweeps

        place = tracking_uri(storage)
        sweeps_of = partial(tracked_sweeps, place)
    sweeps = sweeps_of(dataset, model)
    entries = best_settings([s for s in sweeps if objective in (None, s.rule.objective)])
    if not entries:
        given = {"dataset": dataset, "model": model, "objective": objective}
        raise UserError(_no_best(place, given, best_settings(sweeps_of())))
    return Found(entries, read)


def _no_best(place: str, given: dict[str, str | None], every: list[BestEntry]) -> str:
    """The message that no sweep is as `given`, with the best settings there are."""
    wanted = " ".join(f"{key}={value}" for key, value in given.items() if value)
    if not wanted or not every:
        return f"{place} has no finished sweep yet"
    there = {f"dataset={e.dataset} model={e.model} objective={e.objective}" for e in every}
    return f"{place} has no finished sweep of {wanted}; it has {few(sorted(there))}"


@tells_storage_faults
def overviews(storage: str) -> list[ListedSweep]:
    """The sweeps of a storage, newest first."""
    found = of_each_sweep(storage, _listed)
    return sorted(found, key=lambda each: each.started or math.inf, reverse=True)


def _listed(store: SweepStore, plan: Plan) -> ListedSweep:
    records, scaling, state = store.load_records(), plan.sweep.scaling, state_of(store)
    # When a trial of a killed sweep ended is unknown.
    now = time.time() if state == "running" else 0.0
    hours = scaling.num_workers * sum(record.seconds(now) for record in records) / 3600
    return ListedSweep(
        **vars(overview(plan, Ranking(records, plan.rule), state)),
        owner=owner_of(store.folder),
        last_active=max((r.ended or [[r.started], *r.runs][-1][-1] for r in records), default=None),
        cpu_hours=hours * scaling.cpus_per_worker,
        gpu_hours=hours * scaling.gpus,
        bytes=store.folder.size(),
    )


@tells_storage_faults
def old_sweeps(storage: str, age: str, *, keep_best: bool) -> list[str]:
    """Names of sweeps that do not run, and whose last trial ended longer ago (``30d``).

    `keep_best` leaves out those that have the best setting of a dataset, model and objective.
    """
    if (found := re.fullmatch(r"(?P<number>\d{1,6})(?P<unit>[hdw])", age)) is None:
        raise UserError("not allowed; allowed: such as 12h, 30d or 8w", "older_than", age)
    latest = time.time() - int(found["number"]) * _SECONDS[found["unit"]]
    best = {entry.sweep for entry in best_settings(stored_sweeps(storage))} if keep_best else ()
    return [
        each.name
        for each in overviews(storage)
        if each.state != "running" and each.name not in best and _last_use(each, storage) < latest
    ]


def _last_use(sweep: ListedSweep, storage: str) -> float:
    created = SweepStore(storage, sweep.name).folder.modified("sweep.yaml")
    return sweep.last_active or created or time.time()


@tells_storage_faults
def show_document(name: str, storage: str) -> str:
    """The result of a sweep so far, its trials and its journal, as JSON for other programs."""
    sweep = StoredSweep.read(name, storage)
    store, records = sweep.store, sweep.ranking.records
    return document(
        "show",
        state=state_of(store),
        final=sweep.has_ended,
        reason=failure_of(store),
        result=sweep.result.to_json() if records else None,
        trials=[_trial(record) for record in records],
        journal=[asdict(entry) for entry in read_journal(store.folder)],
    )


def _trial(record: TrialRecord) -> dict[str, object]:
    metrics = {key: value for key, value in record.outcome.items() if key not in ("epoch", *COSTS)}
    return {
        **{key: getattr(record, key) for key in _KEYS},
        "hyperparameters": dict(record.hyperparameters),
        "metrics": metrics,
    }
