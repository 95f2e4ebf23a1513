"""Verdicts and warnings at the end of a sweep, from its predictions."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from sweeps.messages.confident import Confident
from sweeps.messages.shares import Share, share_line
from sweeps.results.reference import ReferenceResult
from sweeps.results.scaling import ScalingRow
from sweeps.results.verdicts import Comparison
from sweeps.search.record import known_fields
from sweeps.search.untried import Untried


@dataclass(frozen=True)
class EventEvidence:
    """The probability of the event, the rarer of two classes, of a setting on the test split."""

    label: str
    event: str
    share: Share

    @property
    def line(self) -> str:
        """``focal on the test split: P(default) is 1.2 % on average, …``."""
        return f"{self.label} on the test split: {share_line(self.event, self.share)}"


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
        ends: Sentences about what ended the search, such as a budget.
        untried: The losses that were not tried.
        scalings: The scaling of the finalists, the selected setting and cross-entropy.
        event: Of the selected setting, if there are two classes.
        confident: Of what is recommended, on the test split.
    """

    comparisons: tuple[Comparison, ...] = ()
    warnings: tuple[str, ...] = ()
    candidates: int | None = None
    references: tuple[ReferenceResult, ...] = ()
    ensemble: dict[str, Any] | None = None
    pairs: tuple[Comparison, ...] = ()
    sets: tuple[dict[str, Any], ...] = ()
    on_data: tuple[str, ...] = ()
    ends: tuple[str, ...] = ()
    untried: tuple[Untried, ...] = ()
    scalings: tuple[ScalingRow, ...] = ()
    event: EventEvidence | None = None
    confident: Confident | None = None

    @classmethod
    def from_json(cls, kept: Mapping[str, Any]) -> Judgement:
        """Read it from :meth:`~sweeps.results.result.SweepResult.to_json`.

        Raises:
            TypeError: The file is damaged.
        """
        ensemble = kept.get("ensemble")
        if ensemble is not None:
            known = map(asdict, _comparisons(ensemble, "comparisons"))
            ensemble = {**ensemble, "comparisons": list(known)}
        plain = ("warnings", "sets", "on_data", "ends")
        values: dict[str, Any] = {key: tuple(kept.get(key, ())) for key in plain}
        values |= {key: _comparisons(kept, key) for key in ("comparisons", "pairs")}
        values["references"] = tuple(ReferenceResult(**each) for each in kept.get("references", ()))
        untried = kept.get("untried", ())
        values["untried"] = tuple(Untried(**known_fields(Untried, each)) for each in untried)
        values["scalings"] = tuple(map(ScalingRow.from_json, kept.get("scalings", ())))
        if (event := kept.get("event")) is not None:
            values["event"] = EventEvidence(**{**event, "share": Share(**event["share"])})
        if (found := kept.get("confident")) is not None:
            values["confident"] = Confident(**found)
        return cls(**values, ensemble=ensemble, candidates=kept.get("candidates"))

    @property
    def in_plain_words(self) -> list[str]:
        """A sentence for everybody: about the event if there is one, else about the confidence."""
        found = self.event or self.confident
        return [] if found is None else [found.line]

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
"""Of a sweep that has not ended, or whose file or predictions cannot be read."""


def _comparisons(kept: Mapping[str, Any], key: str) -> tuple[Comparison, ...]:
    return tuple(Comparison(**known_fields(Comparison, values)) for values in kept.get(key, ()))
