"""Early stopping of trials: classes with the two members of :class:`Stopper`."""

from __future__ import annotations

import math
from bisect import insort
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from sweeps.search.plan import Plan
from sweeps.search.record import Entry, TrialRecord
from trainables.contract.messages import NEVER_STOPPED


class Stopper(Protocol):
    """Judges trials epoch by epoch. After an interruption it is rebuilt from the records."""

    @property
    def rungs(self) -> tuple[int, ...]:
        """The epochs after which it may stop a trial."""

    def judge(self, record: TrialRecord, entry: Entry) -> bool:
        """Record an epoch, unless it was before, and return whether to stop the trial."""


class SuccessiveHalving:
    """ASHA, in its stopping form, within each loss (Li et al. 2020, section 3).

    A trial at a rung continues if its metric is among the best 1/η of all trials of its loss that
    have reached the rung so far. Networks trained with focal loss, for example, have a high NLL by
    construction, so trials of different losses do not compete. The sampler decides which loss gets
    more trials.
    """

    def __init__(self, plan: Plan) -> None:
        scheduler = plan.sweep.scheduler
        self._metric, self._factor = scheduler.metric, scheduler.reduction_factor
        self.rungs = _rungs(plan)
        self._reached: defaultdict[tuple[str, int], _Reached] = defaultdict(_Reached)

    def judge(self, record: TrialRecord, entry: Entry) -> bool:
        """Compare with the trials that reached the rung earlier; see :class:`Stopper`."""
        epoch, value = int(entry["epoch"]), entry.get(self._metric, math.nan)
        if epoch not in self.rungs:
            return False
        reached = self._reached[record.loss, epoch]
        if record.number in reached.trials:
            return False
        reached.trials.add(record.number)
        # In this form, a trial with an undefined metric is stopped.
        poor = False
        if reached.known:
            with np.errstate(invalid="ignore"):  # arithmetic with infinities
                limit = np.percentile(reached.known, 100 / self._factor)
            poor = not value <= limit
        if not math.isnan(value):
            insort(reached.known, value)
        return poor


@dataclass
class _Reached:
    """The trials of a loss that have reached a rung: their numbers, and their sorted metrics."""

    trials: set[int] = field(default_factory=set)
    known: list[float] = field(default_factory=list)


class NeverStop:
    """Every trial runs to its end."""

    rungs: tuple[int, ...] = ()

    def __init__(self, plan: Plan) -> None:
        pass

    def judge(self, record: TrialRecord, entry: Entry) -> bool:
        return False


def is_at_chance(entry: Entry, num_classes: int) -> bool:
    """Whether a classifier has learned almost nothing, so that comparing it would be random.

    That is, the odds of a correct prediction are less than twice those of guessing.
    """
    error = entry.get("val_error", math.nan)
    return error > 0 and (1 - error) / error < 2 / (num_classes - 1)


STOPPERS: dict[str, Callable[[Plan], Stopper]] = {
    "asha": SuccessiveHalving,
    "none": NeverStop,
}


def make_stopper(plan: Plan) -> Stopper:
    return STOPPERS[plan.sweep.scheduler.name](plan)


class Pruner:
    """Applies the sweep's scheduler, with two exceptions.

    The baseline and the finalists are never stopped. Trials still at chance survive the first rung,
    because their order there is random.
    """

    def __init__(self, plan: Plan, num_classes: int) -> None:
        self.stopper = make_stopper(plan)
        self._num_classes = num_classes

    def should_prune(self, record: TrialRecord, entries: Iterable[Entry]) -> bool:
        """Record new epochs of a trial and return whether to stop it."""
        if not record.searched:
            return False
        poor = [
            self.stopper.judge(record, entry) and not self._is_excused(entry) for entry in entries
        ]
        return any(poor) and record.role not in NEVER_STOPPED

    def _is_excused(self, entry: Entry) -> bool:
        return entry["epoch"] <= self.stopper.rungs[0] and is_at_chance(entry, self._num_classes)


def _rungs(plan: Plan) -> tuple[int, ...]:
    """The grace period times powers of the factor, up to nine tenths of the epochs."""
    rungs: list[int] = []
    rung = grace_period(plan)
    while rung <= 0.9 * plan.epochs:
        rungs.append(rung)
        rung *= plan.sweep.scheduler.reduction_factor
    return tuple(rungs)


def grace_period(plan: Plan) -> int:
    """Epochs that every trial runs; by default a ninth of all epochs."""
    given = plan.sweep.scheduler.grace_period
    return given if given is not None else max(1, round(plan.epochs / 9))
