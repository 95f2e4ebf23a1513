"""The settings that are trained again with fresh seeds after the search."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal

from sweeps.search.budget import Budget
from sweeps.search.ranking import Ranking
from sweeps.search.record import TrialRecord
from sweeps.search.rules import rule_of
from sweeps.sweep_file.schema import SweepFile
from trainables.contract.setting import Setting

if TYPE_CHECKING:
    from sweeps.search.guide import Guide

Final = tuple[Setting, int]
"""A setting and the seed to train it with."""

Look = Literal["open", "decided", "hopeless"]
"""Whether further seeds may still change a verdict: see ``selection.seeds``."""

TakeLook = Callable[[Ranking], Look]


class FinalistPlan:
    """The finalists' trials: the best settings and the baseline, each with every fresh seed.

    With ``selection.seeds: auto`` each has two, and then the best of them and the baseline get
    further seeds while `take_look` says that the verdict is open. In a guided search, `guide`
    predicts the objective of each setting. A trial that fails is run once more, as a new trial.
    """

    def __init__(
        self,
        sweep: SweepFile,
        records: Sequence[TrialRecord],
        guide: Guide | None = None,
        take_look: TakeLook = lambda ranking: "open",
    ) -> None:
        self._guide = guide
        self._sweep = sweep
        self._take_look = take_look
        own = [record for record in records if record.role == "finalist"]
        self._started = [(r.setting, r.seed) for r in own]
        self._failed = {(r.setting, r.seed) for r in own if r.state == "failed"}
        self._finals: list[Final] | None = None
        self._looks = list(sweep.selection.looks)  # numbers of seeds, of which the last are to come
        self.ended_by: str | None = None
        """Why there are no further seeds: a :data:`Look`, or the budget that is used up."""

    @property
    def started(self) -> int:
        return len(self._started)

    @property
    def is_final(self) -> bool:
        """Whether the search cannot continue, because finalists are decided or have started."""
        return self._finals is not None or bool(self._started)

    def start(self, record: TrialRecord) -> None:
        self._started.append((record.setting, record.seed))

    def ended(self, record: TrialRecord) -> None:
        if record.state == "failed":
            self._failed.add((record.setting, record.seed))

    def decide(self, searched: Sequence[TrialRecord]) -> bool:
        """Select the finalists from the trials of the search; returns whether this was new."""
        if self._finals is not None:
            return False
        expected = self._guide.expected(searched) if self._guide is not None else None
        again = Ranking(searched, rule_of(self._sweep)).finalists(
            self._affordable(searched), self._sweep.selection.per_loss, expected
        )
        seeds = self._seeds(0, self._sweep.selection.first_seeds)
        self._finals = [(c.setting, seed) for seed in seeds for c in again]
        return True

    def extend(self, records: Sequence[TrialRecord], budget: Budget) -> tuple[int, ...]:
        """Add further seeds of the best finalist and the baseline, once all trials have ended.

        Returns the seeds; none where the verdict is decided or unlikely to be supported with more,
        or where they do not fit into the budget.
        """
        if not self._finals or self.ended_by is not None or len(self._looks) < 2:
            return ()
        seeds = self._seeds(*self._looks[:2])
        pair = self._best_and_baseline(records)
        trials = [(setting, seed) for seed in seeds for setting in pair]
        if not pair:
            self.ended_by = "hopeless"
        elif not any(seed in seeds for _, seed in self._started):
            self.ended_by = self._reason_to_end(records, pair[0], budget, len(trials))
        if self.ended_by is not None:
            return ()
        self._finals += trials
        del self._looks[0]
        return seeds

    def _reason_to_end(
        self, records: Sequence[TrialRecord], best: Setting, budget: Budget, trials: int
    ) -> str | None:
        ranking = Ranking(records, rule_of(self._sweep))
        if ranking.chosen is None or ranking.chosen.setting != best:
            return "hopeless"  # with more seeds the baseline came out better
        look = self._take_look(ranking)
        return look if look != "open" else budget.lacking(trials - 1)

    def _best_and_baseline(self, records: Sequence[TrialRecord]) -> tuple[Setting, ...]:
        """The best finalist by its first seeds, and the baseline; empty if both are one."""
        further = self._seeds(self._sweep.selection.first_seeds, self._sweep.selection.most_seeds)
        first = [r for r in records if r.role != "finalist" or r.seed not in further]
        ranking = Ranking(first, rule_of(self._sweep))
        chosen, baseline = ranking.chosen, ranking.baseline
        if chosen is None or baseline is None or chosen == baseline:
            return ()
        return (chosen.setting, baseline.setting) if chosen.seeds and baseline.seeds else ()

    def _seeds(self, first: int, last: int) -> tuple[int, ...]:
        return self._sweep.seeds[1 + first : 1 + last]

    def trials(self, failed_seeds: set[int], budget: Budget) -> list[Final] | None:
        """All trials except those whose encoder failed; None while undecided.

        Trials that failed occur twice, if the second has started or fits into the budget.
        """
        if self._finals is None:
            return None
        started, unstarted = Counter(self._started), set(self._finals).difference(self._started)
        fits = budget.lacking(len(unstarted)) is None
        again = [f for f in self._finals if f in self._failed and (fits or started[f] > 1)]
        return [final for final in (*self._finals, *again) if final[1] not in failed_seeds]

    def remaining(self, failed_seeds: set[int], budget: Budget) -> list[Final]:
        """The decided trials that have not started; retries are the last."""
        trials = self.trials(failed_seeds, budget) or []
        open_ = Counter(trials) - Counter(self._started)
        return sorted(open_, key=lambda final: final in self._started)

    def _affordable(self, searched: Sequence[TrialRecord]) -> int:
        """How many finalists besides the baseline ``search.max_epochs`` allows."""
        selection, most = self._sweep.selection, self._sweep.search.max_epochs
        if most is None or not selection.first_seeds:
            return selection.finalists if selection.first_seeds else 0
        left = most - sum(record.epochs for record in searched)
        settings = left // (selection.first_seeds * self._sweep.training.epochs)
        return min(selection.finalists, max(0, settings - 1))
