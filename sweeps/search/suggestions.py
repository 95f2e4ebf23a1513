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
    from sweeps.search.guide import Guide

_MOST_GUIDED = 100  # trials; for more, Gaussian processes are slow, so Optuna's sampler follows


class Suggestions:
    """The settings of a search: the baseline, the published ones, then what a sampler proposes.

    Attributes:
        most: The largest number of settings.
        guide: What proposes the settings of a guided search; None for another sampler.
        study: What other samplers learn from.
    """

    def __init__(
        self, plan: Plan, num_classes: int, known: Known, searched: Sequence[TrialRecord]
    ) -> None:
        """`searched` are the trials of the search, of which further ones are added later."""
        self.study = SweepStudy(plan)
        self.study.learn(known.earlier)
        self._searched = searched
        self._trials, self._losses = plan.search.trials, list(plan.space.branches)
        published = plan.space.initial_settings(num_classes)
        self.guide: Guide | None = None
        if plan.search.is_guided:
            from sweeps.search.guide import Guide

            self.guide = Guide(plan, known, published[1:], num_classes)
            published = [s for s in published if not plan.space.contains(s)]
        initial = published if known.initial is None else known.initial
        self._initial = list(initial)[: self._trials]
        self.most = plan.space.most_trials(self._trials, self._initial)
        tried = {record.setting for record in searched}
        self._first = deque(setting for setting in self._initial if setting not in tried)
        for record in searched:
            self.study.adopt(record.number, record.setting)
        for record in sorted(searched, key=lambda r: r.ended or 0.0):
            if record.state != "running":
                self.study.observe(record)

    def next(self, number: int) -> tuple[Role, Setting]:
        """The role and the setting of a new trial."""
        if self._first:
            setting = self._first.popleft()
            self.study.adopt(number, setting)
            return "baseline" if setting == self._initial[0] else "published", setting
        if self.guide is not None and len(self._searched) < _MOST_GUIDED:
            guided = self.guide.propose(self._searched).setting
            if guided is not None:
                self.study.adopt(number, guided)
                return "search", guided
        return "search", self.study.suggest(number)

    @property
    def untried(self) -> list[Untried]:
        """The losses without a trial, each with its most promising setting."""
        tried = {record.loss for record in self._searched}
        left = [loss for loss in self._losses if loss not in tried]
        if self.guide is not None and any(r.state == "finished" for r in self._searched):
            return self.guide.most_promising(left, self._searched)
        return [Untried(Setting(loss, {})) for loss in left]

    @property
    def are_used_up(self) -> bool:
        """Whether there are no more settings."""
        return not self._first and (len(self._searched) >= self._trials or self.study.exhausted)

    @property
    def gain_nothing(self) -> bool:
        """Whether a guided search expects no setting to be better than those that were tried."""
        if self.guide is None or self._first or len(self._searched) >= _MOST_GUIDED:
            return False
        return self.guide.is_done(self._searched)

    @property
    def least_gain(self) -> float:
        """The expected gain below which a guided search ends; 0 for other searches."""
        return self.guide.propose(self._searched).least if self.guide else 0.0
