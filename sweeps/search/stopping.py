"""What stops a trial before its end: the sweep file's ``scheduler``.

To add one, write a class with the two members of :class:`Stopper` and name it in :data:`STOPPERS`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol

import numpy as np

from sweeps.search.record import TrialRecord
from sweeps.sweep_file.schema import SweepFile


class Stopper(Protocol):
    """Judges trials epoch by epoch. Rebuilt of the records after an interruption."""

    @property
    def rungs(self) -> tuple[int, ...]:
        """The epochs after which it may stop a trial."""

    def judge(self, record: TrialRecord, entry: dict[str, float]) -> bool:
        """Take in an epoch of a trial.

        Args:
            record: The trial.
            entry: The epoch's metrics. One that was judged before changes nothing.

        Returns:
            Whether the trial is poor enough to be stopped.
        """


class SuccessiveHalving:
    """ASHA, in its stopping form, within each loss (Li et al. 2020, section 3).

    A trial that comes to a rung goes on if its metric is among the best 1/η of all trials of its
    loss that have come there so far. A net trained with, say, focal loss has a high NLL by
    construction, so trials of different losses do not compete; which loss deserves more trials is
    for the sampler to find.

    Args:
        sweep: The sweep, of which ``scheduler`` and the number of epochs count.
    """

    def __init__(self, sweep: SweepFile) -> None:
        self._metric = sweep.scheduler.metric
        self._factor = sweep.scheduler.reduction_factor
        self.rungs = _rungs(sweep)
        self._reached: dict[tuple[str, int], dict[int, float]] = {}

    def judge(self, record: TrialRecord, entry: dict[str, float]) -> bool:
        """Compare with the trials that came to the rung before; see :class:`Stopper`."""
        epoch, value = int(entry["epoch"]), entry.get(self._metric, math.nan)
        if epoch not in self.rungs:
            return False
        others = self._reached.setdefault((record.loss, epoch), {})
        if record.number in others:
            return False
        known = [other for other in others.values() if not math.isnan(other)]
        others[record.number] = value
        # Written so that a trial whose metric is undefined is stopped.
        return bool(known) and not value <= np.percentile(known, 100 / self._factor)


class NeverStop:
    """Every trial runs to its end."""

    rungs: tuple[int, ...] = ()

    def __init__(self, sweep: SweepFile) -> None:
        pass

    def judge(self, record: TrialRecord, entry: dict[str, float]) -> bool:
        """Never; see :class:`Stopper`."""
        return False


STOPPERS: dict[str, Callable[[SweepFile], Stopper]] = {
    "asha": SuccessiveHalving,
    "none": NeverStop,
}


def make_stopper(sweep: SweepFile) -> Stopper:
    """The stopper that the sweep names, new."""
    return STOPPERS[sweep.scheduler.name](sweep)


def _rungs(sweep: SweepFile) -> tuple[int, ...]:
    """The grace period and its multiples by the factor, but none that saves less than a tenth."""
    rungs: list[int] = []
    rung = grace_period(sweep)
    while rung <= 0.9 * sweep.training.epochs:
        rungs.append(rung)
        rung *= sweep.scheduler.reduction_factor
    return tuple(rungs)


def grace_period(sweep: SweepFile) -> int:
    """Epochs that every trial gets; by default a ninth of them."""
    given = sweep.scheduler.grace_period
    return given if given is not None else max(1, round(sweep.training.epochs / 9))
