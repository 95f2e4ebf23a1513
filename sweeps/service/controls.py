"""What users decide about single trials: drop one, or let one that failed continue."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from sweeps.errors import SweepFailedError, UserError
from sweeps.messages.formatting import number_ranges
from sweeps.search.plan import Plan
from sweeps.search.record import TrialRecord, may_be_dropped, may_be_retried
from sweeps.service.backend import with_history
from sweeps.store.blocks import BlockWriter
from sweeps.store.journal import by_this_user, note
from sweeps.store.requests import Request, ask, is_open, withdraw
from sweeps.store.state import is_held
from sweeps.store.storage import tells_storage_faults
from sweeps.store.sweep_store import SweepStore

_SECONDS_TO_ANSWER: Final = 60.0
_SECONDS_BETWEEN_LOOKS: Final = 0.2


@dataclass(frozen=True)
class Changed:
    """The trials that were changed, and whether the sweep runs, so that it takes effect now."""

    trials: tuple[int, ...]
    running: bool


@tells_storage_faults
def drop_trials(name: str, storage: str, numbers: Sequence[int]) -> Changed:
    """End trials, or leave finished ones out of the result; no resume starts them again.

    Raises:
        UserError: There is no such sweep or trial, or it has failed, is the baseline or an encoder.
        SweepFailedError: The process that runs the sweep does not answer.
    """
    store = SweepStore(storage, name)
    chosen = _chosen(name, _records(store), numbers)
    for record in chosen:
        if not may_be_dropped(record):
            why = "has failed" if record.state == "failed" else f"is the {record.role}"
            raise UserError(
                f"trial {record.number} {why}; allowed: trials that have not failed, other than "
                "the baseline and encoders, which all others need"
            )
    return _change(store, "drop", chosen)


@tells_storage_faults
def retry_trials(name: str, storage: str, numbers: Sequence[int] | None) -> Changed:
    """Let failed trials continue from their last checkpoints; None for all that were not dropped.

    Errors are as for :func:`drop_trials`; a trial that has not failed, or was
    run again as another one, is a UserError.
    """
    store = SweepStore(storage, name)
    records = _records(store)
    possible = [r for r in records.values() if may_be_retried(r, records.values())]
    if numbers is None:
        numbers = [record.number for record in possible if not record.dropped]
        if not numbers:
            raise UserError(f"no trial of sweep {name!r} has failed")
    chosen = _chosen(name, records, numbers)
    for record in chosen:
        if record not in possible:
            why = "was run again" if record.state == "failed" else f"is {record.state}"
            raise UserError(f"trial {record.number} {why}; allowed: trials that have failed")
    return _change(store, "retry", chosen)


def _records(store: SweepStore) -> dict[int, TrialRecord]:
    store.load_sweep()  # raises if there is no such sweep
    return {record.number: record for record in store.load_records()}


def _chosen(
    name: str, records: Mapping[int, TrialRecord], numbers: Sequence[int]
) -> list[TrialRecord]:
    if missing := [number for number in numbers if number not in records]:
        there = f"there are {number_ranges(records)}" if records else "there is none yet"
        raise UserError(f"sweep {name!r} has no trial {number_ranges(missing)}; {there}")
    return [records[number] for number in dict.fromkeys(numbers)]


def _change(
    store: SweepStore, kind: Literal["drop", "retry"], chosen: Sequence[TrialRecord]
) -> Changed:
    request = Request(kind, tuple(record.number for record in chosen), by_this_user())
    running = is_held(store)
    if running:
        _ask(store, request)
    else:
        _change_here(store, request, chosen)
    note(store.folder, "dropped" if kind == "drop" else "retried", request.by, request.trials)
    return Changed(request.trials, running)


def _change_here(store: SweepStore, request: Request, chosen: Sequence[TrialRecord]) -> None:
    with store.locked():
        store.forget_answer()  # another one may be right now
        plan = Plan(store.load_sweep())
        blocks = BlockWriter(store.folder, store.load_records())
        for record in chosen:
            if request.kind == "retry":
                record.again()
            else:
                with_history(plan, store, record).drop(request.by)
            store.save(record)
            blocks.take(record)


def _ask(store: SweepStore, request: Request) -> None:
    """Ask the process that runs the sweep, and wait until it has taken the request."""
    name, until = ask(store.folder, request), time.monotonic() + _SECONDS_TO_ANSWER
    try:
        while is_open(store.folder, name):
            if time.monotonic() > until:
                raise SweepFailedError(
                    f"the process that runs sweep {store.name!r} accepts no requests now, because "
                    "it trains no trial; try again later"
                )
            time.sleep(_SECONDS_BETWEEN_LOOKS)
    finally:
        withdraw(store.folder, name)  # also after Ctrl-C
