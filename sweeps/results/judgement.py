"""Verdicts and warnings at the end of a sweep, from its predictions."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

from sweeps.results.reference import ReferenceResult
from sweeps.results.verdicts import Comparison


@dataclass(frozen=True)
class Judgement:
    """The evaluation of the selected setting, made once at the end of a sweep.

    Attributes:
        pairs: Comparisons of the losses in pairs, if the sweep compares them.
        warnings: Reasons not to use the result.
        candidates: Number of settings that the selection on these validation data considered,
            including those of earlier sweeps; None before the end.
        ensemble: See :func:`~sweeps.evidence.ensemble.judge_ensemble`.
        on_data: Sentences about the task, and what was noticed when the data were read.
        sets: See :func:`~sweeps.evidence.prediction_sets.judge_sets`.
    """

    comparisons: tuple[Comparison, ...] = ()
    warnings: tuple[str, ...] = ()
    candidates: int | None = None
    references: tuple[ReferenceResult, ...] = ()
    ensemble: dict[str, Any] | None = None
    pairs: tuple[Comparison, ...] = ()
    sets: tuple[dict[str, Any], ...] = ()
    on_data: tuple[str, ...] = ()

    @property
    def all_comparisons(self) -> list[Comparison]:
        return [*self.comparisons, *self.pairs, *self.of_ensemble]

    @property
    def of_ensemble(self) -> list[Comparison]:
        found = [] if self.ensemble is None else self.ensemble["comparisons"]
        return [Comparison(**each) for each in found]

    @property
    def all_sets(self) -> list[dict[str, Any]]:
        return [*self.sets, *(row for each in self._ensembles for row in each.get("sets", []))]

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Rows for the leaderboard; values that JSON omits are NaN."""
        return [defaultdict(lambda: math.nan, each["row"]) for each in self._ensembles]

    @property
    def _ensembles(self) -> list[dict[str, Any]]:
        """The ensemble and the seeds of cross-entropy."""
        if self.ensemble is None:
            return []
        seeds = self.ensemble.get("seeds")
        return [self.ensemble, *([seeds] if seeds else [])]

    @property
    def on_ensemble(self) -> list[str]:
        return [] if self.ensemble is None else list(self.ensemble["why"])

    @property
    def advice_on_ensemble(self) -> str:
        return "" if self.ensemble is None else self.ensemble.get("advice", "")


NOT_YET = Judgement()
"""Of a sweep that has not ended, or whose predictions cannot be read."""
