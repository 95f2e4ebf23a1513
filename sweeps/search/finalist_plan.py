"""Which settings are trained again with fresh seeds once the search has ended."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sweeps.search.ranking import Ranking
from sweeps.search.record import TrialRecord
from sweeps.search.rules import rule_of
from sweeps.sweep_file.schema import SweepFile
from trainables.contract.setting import Setting

if TYPE_CHECKING:
    from sweeps.search.guide import Guide

Final = tuple[Setting, int]
"""A setting and the seed to train it with."""


class FinalistPlan:
    """The finalists' trials: the best settings and the baseline, each with every fresh seed.

    Args:
        sweep: The sweep.
        records: Its trials from an earlier run.
        guide: Of a guided search: says what to expect of each setting.
    """

    def __init__(
        self, sweep: SweepFile, records: Sequence[TrialRecord], guide: Guide | None = None
    ) -> None:
        self._guide = guide
        self._sweep = sweep
        self._started = [(r.setting, r.seed) for r in records if r.role == "finalist"]
        self._finals: list[Final] | None = None

    @property
    def started(self) -> int:
        """How many of the trials have started."""
        return len(self._started)

    @property
    def is_final(self) -> bool:
        """Whether the search cannot continue, because finalists are decided or have started."""
        return self._finals is not None or bool(self._started)

    def start(self, record: TrialRecord) -> None:
        """One of the trials starts."""
        self._started.append((record.setting, record.seed))

    def decide(self, searched: Sequence[TrialRecord]) -> bool:
        """Select the finalists from the trials of the search; whether they were undecided."""
        if self._finals is not None:
            return False
        expected = self._guide.expected(searched) if self._guide is not None else None
        again = Ranking(searched, rule_of(self._sweep)).finalists(
            self._affordable(searched), self._sweep.selection.per_loss, expected
        )
        self._finals = [(c.setting, seed) for seed in self._sweep.seeds[1:] for c in again]
        return True

    def trials(self, failed_seeds: set[int]) -> list[Final] | None:
        """All trials but those whose encoder failed; None while undecided."""
        if self._finals is None:
            return None
        return [final for final in self._finals if final[1] not in failed_seeds]

    def remaining(self, failed_seeds: set[int]) -> list[Final]:
        """The decided trials that have not started."""
        trials = self.trials(failed_seeds) or []
        return [final for final in trials if final not in self._started]

    def _affordable(self, searched: Sequence[TrialRecord]) -> int:
        """How many finalists besides the baseline ``search.max_epochs`` allows."""
        selection, most = self._sweep.selection, self._sweep.search.max_epochs
        if most is None or not selection.seeds:
            return selection.finalists if selection.seeds else 0
        left = most - sum(record.epochs for record in searched)
        settings = left // (selection.seeds * self._sweep.training.epochs)
        return min(selection.finalists, max(0, settings - 1))
