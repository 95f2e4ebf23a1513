"""What a new sweep may learn from earlier ones in the same storage (``search.warm_start``)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sweeps.errors import UserError
from sweeps.search.ranking import baseline_means, best_values, excesses
from sweeps.search.record import TrialRecord
from sweeps.search.rules import rule_of
from sweeps.sweep_file.schema import SweepFile
from trainables.contract.setting import Setting

if TYPE_CHECKING:
    from sweeps.search.space import SearchSpace


@dataclass(frozen=True)
class EarlierTrial:
    """A finished trial of another sweep, as this sweep's study learns of it.

    Attributes:
        setting: Its loss with its hyperparameters.
        objective: This sweep's objective, as that trial had it.
        excess: By how much it breaks the guard, against its own sweep's baseline.
        constraints: The same of this sweep's constraints, by metric.
        others: Its further objectives.
    """

    setting: Setting
    objective: float
    excess: float
    constraints: dict[str, float] = field(default_factory=dict)
    others: list[float] = field(default_factory=list)


def earlier_trials(
    sweep: SweepFile, records: Mapping[str, Sequence[TrialRecord]]
) -> list[EarlierTrial]:
    """The finished trials of the sweeps that ``search.warm_start`` names, as far as they fit.

    A trial fits if its loss and its hyperparameters are searched in this sweep too and lie within
    the ranges; those that are fixed here must have had that value. Finalists are left out: their
    settings are those of other trials, and chosen for their luck.

    Args:
        sweep: The new sweep.
        records: The trials of each sweep that it names.

    Raises:
        UserError: None of the trials fits.
    """
    from sweeps.search.space import SearchSpace  # Optuna takes a quarter of a second

    space = SearchSpace(sweep)
    named = sweep.search.warm_start
    found = [trial for name in named for trial in _fitting(records[name], sweep, space)]
    if named and not found:
        raise UserError(
            f"search.warm_start = {', '.join(named)}: no finished trial there "
            "has a loss, hyperparameters and values that this sweep searches; leave it out"
        )
    return found


def _fitting(
    records: Sequence[TrialRecord], sweep: SweepFile, space: SearchSpace
) -> list[EarlierTrial]:
    rule = rule_of(sweep)
    needed = {*rule.objectives, *(limit.metric for limit in rule.limits.values())}
    finished = [
        r
        for r in records
        if r.state == "finished"
        and r.searched
        and all(math.isfinite(r.outcome.get(metric, math.nan)) for metric in needed)
    ]
    references = baseline_means((r for r in finished if r.role == "baseline"), rule)
    if references is None:
        references = best_values([r.outcome for r in finished], rule)
    found = []
    for r in finished:
        if _fits(r.setting, space):
            beyond = excesses(r, references, rule)
            guard = beyond.pop("guard")
            first, *others = (r.outcome[name] for name in rule.objectives)
            found.append(EarlierTrial(r.setting, first, guard, beyond, others))
    return found


def _fits(setting: Setting, space: SearchSpace) -> bool:
    """Whether all of a setting's values are searched here, or fixed to what they were there."""
    if not space.contains(setting):
        return False
    fixed, values = space.fixed[setting.loss], setting.hyperparameters
    as_here = all(name in values and values[name] == value for name, value in fixed.items())
    return as_here and values.keys() == space.branches[setting.loss].keys() | fixed.keys()
