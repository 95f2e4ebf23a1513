"""Trials of earlier sweeps that a sweep which is not guided learns from (``search.learn_from``)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sweeps.errors import UserError
from sweeps.search.ranking import baseline_means, best_values, excesses
from sweeps.search.record import TrialRecord
from sweeps.search.recorded import RecordedSetting
from sweeps.search.rules import Rule, rule_of
from sweeps.sweep_file.schema import SweepFile
from trainables.contract.setting import Setting

if TYPE_CHECKING:
    from sweeps.search.space import SearchSpace


@dataclass(frozen=True)
class EarlierTrial:
    """A finished trial of another sweep, as this sweep's study learns of it.

    Attributes:
        objective: Value of this sweep's objective in that trial.
        excess: Excess over the guard, relative to the baseline of its own sweep.
        constraints: Excess over this sweep's constraints, by metric.
        others: Its further objectives.
    """

    setting: Setting
    objective: float
    excess: float
    constraints: dict[str, float] = field(default_factory=dict)
    others: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class Known:
    """What a search starts from.

    Attributes:
        earlier: Trials of earlier sweeps to learn from.
        recorded: Records of settings on earlier datasets, for a guided search.
        initial: The baseline and the settings to try first, instead of the published ones.
        candidates: The candidates of a guided search, see :class:`~sweeps.search.guide.Guide`.
    """

    earlier: Sequence[EarlierTrial] = ()
    recorded: Sequence[RecordedSetting] = ()
    initial: Sequence[Setting] | None = None
    candidates: Sequence[Setting] | None = None


def earlier_trials(
    sweep: SweepFile, records: Mapping[str, Sequence[TrialRecord]]
) -> list[EarlierTrial]:
    """The suitable finished trials of the sweeps in ``search.learn_from``, UserError if none is.

    A trial is suitable if this sweep searches its loss and hyperparameters, their values are within
    the ranges, and fixed hyperparameters have the same value. Finalists are omitted, because they
    repeat the luckiest settings of other trials. A guided search learns from temperatures instead,
    see :func:`~sweeps.store.earlier_sweeps.recorded_for`.
    """
    if sweep.search.is_guided or not sweep.search.named:
        return []
    from sweeps.search.space import SearchSpace  # Optuna takes a quarter of a second

    space, rule = SearchSpace(sweep.losses), rule_of(sweep)
    named = sweep.search.named
    found = [trial for name in named for trial in _fitting(records[name], rule, space)]
    if not found:
        raise UserError(
            f"search.learn_from = {', '.join(named)}: no finished trial there "
            "has a loss, hyperparameters and values that this sweep searches; leave it out"
        )
    return found


def _fitting(records: Sequence[TrialRecord], rule: Rule, space: SearchSpace) -> list[EarlierTrial]:
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
    """Whether all of a setting's values are in this search space or equal to its fixed values."""
    if not space.contains(setting):
        return False
    fixed, values = space.fixed[setting.loss], setting.hyperparameters
    as_here = all(name in values and values[name] == value for name, value in fixed.items())
    return as_here and values.keys() == space.branches[setting.loss].keys() | fixed.keys()
