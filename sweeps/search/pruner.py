"""Decides after each epoch whether a trial is stopped early."""

from __future__ import annotations

from collections.abc import Iterable

from sweeps.search.plan import Plan
from sweeps.search.record import Entry, TrialRecord
from sweeps.search.stopping import is_at_chance, make_stopper
from trainables.contract.report import NEVER_STOPPED


class Pruner:
    """Applies the sweep's scheduler, with two exceptions.

    The baseline and the finalists are never stopped. Trials still at chance survive the first rung,
    because their order there is random.
    """

    def __init__(self, plan: Plan, num_classes: int) -> None:
        self._stopper = make_stopper(plan)
        self._num_classes = num_classes

    @property
    def rungs(self) -> tuple[int, ...]:
        """The epochs after which a trial may be stopped."""
        return self._stopper.rungs

    def should_prune(self, record: TrialRecord, entries: Iterable[Entry]) -> bool:
        """Record new epochs of a trial and return whether to stop it."""
        if not record.searched:
            return False
        poor = [
            self._stopper.judge(record, entry) and not self._is_excused(entry) for entry in entries
        ]
        return any(poor) and record.role not in NEVER_STOPPED

    def _is_excused(self, entry: Entry) -> bool:
        return entry["epoch"] <= self.rungs[0] and is_at_chance(entry, self._num_classes)
