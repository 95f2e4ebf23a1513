"""What a new sweep may learn from earlier ones in the same storage (``search.warm_start``)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from sweeps.errors import UserError
from sweeps.search.ranking import guard_excess, guard_reference
from sweeps.search.record import TrialRecord
from sweeps.search.space import optuna_parameters
from sweeps.store.sweep_store import SweepStore
from sweeps.sweep_file.schema import SweepFile


@dataclass(frozen=True)
class EarlierTrial:
    """A finished trial of another sweep, as this sweep's study is told of it.

    Attributes:
        loss: Name of the loss.
        hyperparameters: Its hyperparameters.
        objective: This sweep's objective, as that trial had it.
        excess: By how much it breaks the guard, against its own sweep's baseline.
    """

    loss: str
    hyperparameters: dict[str, Any]
    objective: float
    excess: float


def earlier_trials(sweep: SweepFile, storage: str) -> list[EarlierTrial]:
    """The finished trials of the sweeps that ``search.warm_start`` names, as far as they fit.

    A trial fits if its loss and its hyperparameters are searched in this sweep too and lie within
    the ranges; those that are fixed here must have had that value. Finalists are left out: their
    settings are those of other trials, and chosen for their luck.

    Raises:
        UserError: There is no sweep of such a name, or none of the trials fits.
    """
    found: list[EarlierTrial] = []
    for name in sweep.search.warm_start:
        store = SweepStore(storage, name)
        try:
            store.load_sweep()
        except UserError as error:
            raise UserError(f"search.warm_start: {error}") from None
        found += _fitting(store.load_records(), sweep)
    if sweep.search.warm_start and not found:
        raise UserError(
            f"search.warm_start = {', '.join(sweep.search.warm_start)}: no finished trial there "
            "has a loss, hyperparameters and values that this sweep searches; leave it out"
        )
    return found


def _fitting(records: list[TrialRecord], sweep: SweepFile) -> list[EarlierTrial]:
    objective = sweep.search.objective
    finished = [
        r
        for r in records
        if r.state == "finished"
        and r.role in ("baseline", "published", "search")
        and math.isfinite(r.outcome.get(objective, math.nan))
    ]
    if not finished:
        return []
    reference = guard_reference([r for r in finished if r.role == "baseline"])
    if reference is None:
        reference = min(r.outcome["val_error"] for r in finished)
    return [
        EarlierTrial(
            r.loss,
            r.hyperparameters,
            r.outcome[objective],
            guard_excess(r, reference, sweep.search.guard),
        )
        for r in finished
        if _fits(r, sweep)
    ]


def _fits(record: TrialRecord, sweep: SweepFile) -> bool:
    fixed = next((s.hyperparameters for s in sweep.losses if s.name == record.loss), {})
    values = record.hyperparameters
    if any(name not in values or values[name] != value for name, value in fixed.items()):
        return False
    parameters = optuna_parameters(sweep, (record.loss, values))
    return parameters is not None and len(parameters) - 1 + len(fixed) == len(values)
