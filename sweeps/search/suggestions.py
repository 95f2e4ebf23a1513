"""The settings of a search, in the order in which they are tried."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

from sweeps.search.plan import Plan
from sweeps.search.record import TrialRecord
from sweeps.search.study import SweepStudy
from sweeps.search.untried import Untried
from sweeps.search.warm_start import Known
from trainables.contract.messages import Role
from trainables.contract.setting import Setting

if TYPE_CHECKING:
    from sweeps.search.guide import Guide, Proposal

_MOST_GUIDED = 100  # trials; for more, Gaussian processes are slow, so Optuna's sampler follows


class Suggestions:
    """The settings of a search: the baseline, the published ones, then what a sampler proposes.

    Attributes:
        most: The largest number of settings.
        guide: What proposes the settings of a guided search; None for another sampler.
    """

    def __init__(self, plan: Plan, num_classes: int, known: Known) -> None:
        self._study = SweepStudy(plan)
        self._study.learn(known.earlier)
        self._trials, self._losses = plan.search.trials, list(plan.space.branches)
        published = plan.space.initial_settings(num_classes)
        self.guide: Guide | None = None
        if plan.search.is_guided:
            from sweeps.search.guide import Guide

            self.guide = Guide(plan, known, published[1:], num_classes)
            published = [s for s in published if not plan.space.contains(s)]
        initial = published if known.initial is None else known.initial
        self._initial = list(initial)[: self._trials]
        self._first = deque(self._initial)
        self.most = plan.space.most_trials(self._trials, self._initial)

    def adopt(self, searched: Sequence[TrialRecord]) -> None:
        """Continue after these trials of the search, some of which are still running."""
        tried = {record.setting for record in searched}
        self._first = deque(setting for setting in self._initial if setting not in tried)
        for record in searched:
            self._study.adopt(record.number, record.setting)
        for record in sorted(searched, key=lambda r: r.ended or 0.0):
            if record.state != "running":
                self._study.observe(record)

    def observe(self, record: TrialRecord) -> None:
        """Learn from a trial that has ended."""
        self._study.observe(record)

    def again(self, record: TrialRecord) -> None:
        """A trial that had ended continues, so its result is new."""
        self._study.adopt(record.number, record.setting)

    def next(self, number: int, searched: Sequence[TrialRecord]) -> tuple[Role, Setting]:
        """The role and the setting of a new trial, after these trials of the search."""
        if self._first:
            setting = self._first.popleft()
            self._study.adopt(number, setting)
            return "baseline" if setting == self._initial[0] else "published", setting
        if self.guide is not None and len(searched) < _MOST_GUIDED:
            guided = self.guide.propose(searched).setting
            if guided is not None:
                self._study.adopt(number, guided)
                return "search", guided
        return "search", self._study.suggest(number)

    def untried(self, searched: Sequence[TrialRecord]) -> list[Untried]:
        """The losses without a trial, each with its most promising setting."""
        tried = {record.loss for record in searched}
        left = [loss for loss in self._losses if loss not in tried]
        if self.guide is not None and any(r.state == "finished" for r in searched):
            return self.guide.most_promising(left, searched)
        return [Untried(Setting(loss, {})) for loss in left]

    def are_used_up(self, searched: int) -> bool:
        """Whether there are no more settings after this many."""
        return not self._first and (searched >= self._trials or self._study.exhausted)

    def gain_nothing(self, searched: Sequence[TrialRecord]) -> bool:
        """Whether a guided search expects no setting to be better than those of these trials."""
        if self.guide is None or self._first or len(searched) >= _MOST_GUIDED:
            return False
        return self.guide.is_done(searched)

    def least_gain(self, searched: Sequence[TrialRecord]) -> float:
        """The expected gain below which a guided search ends; 0 for other searches."""
        return self.guide.propose(searched).least if self.guide else 0.0

    @property
    def latest_proposal(self) -> Proposal | None:
        """What a guided search expected last."""
        return self.guide.latest if self.guide else None
