"""The settings that are trained again with fresh seeds after the search."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal

from sweeps.search.budget import Budget
from sweeps.search.encoder_plan import EncoderPlan
from sweeps.search.plan import Plan
from sweeps.search.ranking import Ranking
from sweeps.search.record import TrialRecord
from trainables.contract.setting import BASELINE_LOSS, Setting

if TYPE_CHECKING:
    from sweeps.search.guide import Guide

Final = tuple[Setting, int]
"""A setting and the seed to train it with."""

Look = Literal["open", "decided", "hopeless"]
"""Whether further seeds may still change a verdict: see ``selection.seeds``."""

TakeLook = Callable[[Ranking], Look]


class FinalistPlan:
    """The finalists' trials, in stages: see :class:`SeedCounts`.

    The best of the finalists and the baseline get further seeds; beyond the first look, only while
    `take_look` says that the verdict is open. A trial that fails is run once more, as a new trial.

    Attributes:
        guide: Predicts the objective of each setting in a guided search; else None.
    """

    def __init__(
        self,
        plan: Plan,
        records: Sequence[TrialRecord],
        budget: Budget,
        encoders: EncoderPlan,
        take_look: TakeLook,
    ) -> None:
        self.guide: Guide | None = None
        self._plan, self._records = plan, records
        self._budget, self._encoders = budget, encoders
        self._take_look = take_look
        self._own = [record for record in records if record.role == "finalist"]
        self._finals: list[Final] | None = None
        self._first: list[Final] = []  # the finals that are decided first
        self._counts = plan.counts
        self._stages = list(self._counts.stages)  # numbers of seeds, of which the last are to come
        self.ended_by: str | None = None
        """Why there are no further seeds: a :data:`Look`, or the budget that is used up."""

    @property
    def started(self) -> int:
        return len(self._own)

    @property
    def _started(self) -> list[Final]:
        return [(record.setting, record.seed) for record in self._own]

    @property
    def is_decided(self) -> bool:
        return self._finals is not None

    @property
    def is_final(self) -> bool:
        """Whether the search cannot continue, because finalists are decided or have started."""
        return self._finals is not None or bool(self._own)

    def start(self, record: TrialRecord) -> None:
        """A trial of a finalist has started."""
        self._own.append(record)

    def decide(self, searched: Sequence[TrialRecord]) -> bool:
        """Select the finalists from the trials of the search; returns whether this was new."""
        if self._finals is not None:
            return False
        expected = self.guide.expected(searched) if self.guide is not None else None
        ranking, room = Ranking(searched, self._plan.rule), self._room(searched)
        found = ranking.finalists(
            self._counts.affordable(room),
            per_loss=self._plan.sweep.selection.per_loss,
            expected=expected,
        )
        again = [c.setting for c in found if c.loss != BASELINE_LOSS]
        baseline = [c.setting for c in ranking.candidates if c.loss == BASELINE_LOSS]
        if not again and self._counts.baseline > room:
            baseline = []
        self._first = [
            (setting, seed)
            for number, seed in enumerate(self._seeds(0, self._counts.baseline))
            for setting in (*(again if number < self._counts.first else ()), *baseline)
        ]
        self._finals = list(self._first)
        if not again:
            self._stages.clear()
        return True

    def planned(self, searched: int) -> int:
        """The number of trials, as far as known; `searched` is the number of settings."""
        if (known := self.trials) is None:
            return self._counts.first_trials(searched)
        return len(known) + len(self._reserved - self._encoders.failed)

    @property
    def _reserved(self) -> set[int]:
        """The seeds that the best finalist will get in any case."""
        if len(self._stages) < 2 or self._stages[0] in self._counts.looks or self.ended_by:
            return set()
        return set(self._seeds(*self._stages[:2]))

    def extend(self) -> tuple[int, ...]:
        """Add further seeds of the best finalist and the baseline, once all trials have ended.

        Returns the seeds; none where the verdict is decided or unlikely to be supported with more,
        or where they do not fit into the budget.
        """
        if not self._finals or self.ended_by is not None or len(self._stages) < 2:
            return ()
        seeds = self._seeds(*self._stages[:2])
        best = self._best()
        baseline = [s for s, _ in self._first if s.loss == BASELINE_LOSS][:1]
        every = [(setting, seed) for seed in seeds for setting in (best, *baseline) if setting]
        trials = [final for final in every if final not in self._finals]
        if best is None:
            self.ended_by = "hopeless"
        elif self._stages[0] in self._counts.looks and not any(t in self._started for t in trials):
            self.ended_by = self._reason_to_end(best, len(trials))
        if self.ended_by is not None:
            return ()
        self._finals += trials
        del self._stages[0]
        return seeds

    def _reason_to_end(self, best: Setting, trials: int) -> str | None:
        ranking = Ranking(self._records, self._plan.rule)
        if ranking.chosen is None or ranking.chosen.setting != best:
            return "hopeless"  # the baseline came out better
        look = self._take_look(ranking)
        return look if look != "open" else self._budget.lacking(trials - 1)

    def _best(self) -> Setting | None:
        """The best finalist by the first seeds, if feasible; last, one whose seeds failed."""
        first = [
            r for r in self._records if r.role != "finalist" or (r.setting, r.seed) in self._first
        ]
        again = {setting for setting, _ in self._first if setting.loss != BASELINE_LOSS}
        ranked = Ranking(first, self._plan.rule).candidates
        return next((c.setting for c in ranked if c.feasible and c.setting in again), None)

    def _seeds(self, first: int, last: int) -> tuple[int, ...]:
        return self._plan.seeds[1 + first : 1 + last]

    @property
    def trials(self) -> list[Final] | None:
        """All trials except those whose encoder failed; None while undecided.

        Trials that failed occur twice, if the second has started or fits into the budget.
        """
        if self._finals is None:
            return None
        started = Counter(self._started)
        failed = {
            (each.setting, each.seed)
            for each in self._own
            if each.state == "failed" and not each.dropped
        }
        fits = self._budget.lacking(len({*self._finals} - {*started}) + len(self._reserved)) is None
        again = [f for f in self._finals if f in failed and (fits or started[f] > 1)]
        lost = self._encoders.failed
        return [final for final in (*self._finals, *again) if final[1] not in lost]

    @property
    def remaining(self) -> list[Final]:
        """The decided trials that have not started; retries are the last."""
        started = Counter(self._started)
        return sorted(Counter(self.trials or []) - started, key=lambda final: final in started)

    def _room(self, searched: Sequence[TrialRecord]) -> int:
        """The number of trials that ``search.max_epochs`` allows."""
        if (most := self._plan.search.max_epochs) is None:
            return sys.maxsize
        return (most - sum(record.epochs for record in searched)) // self._plan.epochs
