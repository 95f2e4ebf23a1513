"""What a new sweep learns from earlier ones of the storage (``search.learn_from``).

A guided search starts from the recorded settings of finished sweeps, another one from the trials of
the sweeps that are named.
"""

from __future__ import annotations

import json
import math
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain
from statistics import fmean
from typing import Final

from sweeps.errors import UserError
from sweeps.search.plan import Plan
from sweeps.search.record import Entry, TrialRecord, flat
from sweeps.search.recorded import RecordedSetting, recorded_settings
from sweeps.search.rules import rule_of
from sweeps.search.warm_start import EarlierTrial, Known
from sweeps.store.identity import read_identity
from sweeps.store.outcomes import complete
from sweeps.store.storage import read_list, tells_storage_faults
from sweeps.store.sweep_store import SweepStore, of_each_sweep
from sweeps.sweep_file.schema import SweepFile
from trainables.contract.setting import BASELINE, Setting
from trainables.files.storage import Folder

_EARLIER: Final = "warm_start.json"
_RECORDED: Final = "recorded_settings.json"
_SAME_MODEL: Final = 4.0  # weight of a setting that was trained with the same model


@tells_storage_faults
def recorded_for(sweep: SweepFile, storage: str) -> list[RecordedSetting]:
    """The settings that a new sweep, with its model, starts from: see ``search.learn_from``.

    Raises:
        UserError: A named sweep does not exist or has not finished.
    """
    search, model = sweep.search, sweep.model.name
    if not search.is_guided or search.learn_from == ("none",):
        return []
    if search.named:
        return [each for name in search.named for each in _of_named(name, storage, model)]

    def settings(store: SweepStore, earlier: Plan) -> list[RecordedSetting]:
        if store.name == sweep.name or store.load_answer() is None:
            return []
        return _of_sweep(earlier.sweep.model.name, store, model)

    return [*recorded_settings(), *chain.from_iterable(of_each_sweep(storage, settings))]


def known_files(known: Known) -> dict[str, bytes]:
    """The files that store what a search starts from, so that a resumed sweep uses the same."""
    lists = {_EARLIER: known.earlier, _RECORDED: known.recorded}
    return {
        name: json.dumps([flat(each) for each in values]).encode()
        for name, values in lists.items()
        if values
    }


def read_known(folder: Folder) -> Known:
    """What :func:`known_files` has stored; a damaged file counts as empty."""
    return Known(
        read_list(folder, _EARLIER, EarlierTrial), read_list(folder, _RECORDED, RecordedSetting)
    )


def settings_of(source: str, records: Sequence[TrialRecord]) -> Iterator[RecordedSetting]:
    """The settings of a sweep with known temperatures, as means over their seeds."""
    groups: dict[Setting, list[Entry]] = {}
    for record in records:
        if record.state == "finished" and record.outcome.get("temperature", 0) > 0:
            groups.setdefault(record.setting, []).append(record.outcome)
    if BASELINE not in groups:
        return
    log_t = {s: fmean(math.log(e["temperature"]) for e in each) for s, each in groups.items()}
    error = {s: fmean(e["val_error"] for e in each) for s, each in groups.items()}
    for setting in groups:
        yield RecordedSetting(
            source=source,
            setting=setting,
            log_ratio=log_t[setting] - log_t[BASELINE],
            error_ratio=error[setting] / error[BASELINE] - 1 if error[BASELINE] else 0.0,
            baseline_error=error[BASELINE],
        )


def _of_named(name: str, storage: str, model: str) -> list[RecordedSetting]:
    store = SweepStore(storage, name)
    with _as_key():
        earlier = store.load_sweep()
    if store.load_answer() is None:
        raise UserError(
            f"search.learn_from = {name!r}: this sweep has not finished; allowed: all, none, or "
            "names of finished sweeps"
        )
    return _of_sweep(earlier.model.name, store, model)


def _of_sweep(earlier: str, store: SweepStore, model: str) -> list[RecordedSetting]:
    weight = _SAME_MODEL if earlier == model else 1.0
    return [replace(each, weight=weight) for each in settings_of(store.name, store.load_records())]


@contextmanager
def _as_key() -> Iterator[None]:
    try:
        yield
    except UserError as error:
        raise UserError(f"search.learn_from: {error}; allowed besides: all, none") from None


@tells_storage_faults
def sweeps_to_learn_from(sweep: SweepFile, storage: str) -> dict[str, list[TrialRecord]]:
    """Their trials by name, with the metrics that decide here; UserError if one does not exist."""
    needed = {*rule_of(sweep).deciding}
    found = {}
    for name in sweep.search.named:
        store = SweepStore(storage, name)
        with _as_key():
            plan = store.load_plan()
        found[name] = records = store.load_records()
        lacking = [r for r in records if not needed <= r.outcome.keys()]
        deque(complete(lacking, plan, store.rows), maxlen=0)
    return found


@tells_storage_faults
def on_other_data(names: Sequence[str], data: str, storage: str) -> list[str]:
    """A sentence for each of these sweeps that was run on other data than those of this digest."""
    lines = []
    for name in names:
        store = SweepStore(storage, name)
        if (identity := read_identity(store.folder)) is not None and identity.digest != data:
            label = store.load_sweep().dataset.label
            lines.append(
                f"search.learn_from = {name} was run on other data ({label}, digest "
                f"{identity.digest}; here {data}): what was good there may not be good here"
            )
    return lines
