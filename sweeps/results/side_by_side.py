"""Compares several sweeps, for example on different datasets or with different models."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from sweeps.messages.formatting import over_groups
from sweeps.search.ranking import Candidate, Ranking
from sweeps.sweep_file.schema import SweepFile
from trainables.contract.metric_names import MetricName, groups_name


@dataclass(frozen=True)
class Beside:
    """One of the compared sweeps; the verdict is None before its end."""

    sweep: SweepFile
    ranking: Ranking
    verdict: str | None

    @property
    def losses(self) -> list[str]:
        """The losses that the sweep names."""
        return [section.name for section in self.sweep.losses]

    @property
    def chosen(self) -> dict[str, Any]:
        """The selected setting: ``loss``, ``hyperparameters``, metrics; empty if there is none.

        ``over`` is `` over 57 groups``, if groups are the unit of the interval.
        """
        if (chosen := self.ranking.chosen) is None:
            return {}
        name = MetricName(MetricName.parse(self.ranking.rule.objective).metric, "test")
        low, high = chosen.interval(name)
        scaled, baseline = replace(name, scaled=True), self.ranking.baseline
        return {
            "loss": chosen.loss,
            "hyperparameters": chosen.setting.hyperparameters,
            "objective": chosen.objective,
            "val_error": chosen.val_error,
            "test": chosen.mean(name),
            "test_low": low,
            "test_high": high,
            "over": over_groups(chosen.mean(groups_name("test"))),
            "test_error": chosen.mean("test_error"),
            "test_scaled": chosen.mean(scaled),
            "temperature": chosen.mean("temperature"),
            "baseline_test": math.nan if baseline is None else baseline.mean(name),
            "baseline_scaled": math.nan if baseline is None else baseline.mean(scaled),
        }


def best_by_loss(sweeps: Sequence[Beside]) -> dict[str, list[Candidate | None]]:
    """Loss → its best setting in each sweep; None if none of its trials finished there.

    Losses are sorted by their mean rank over the sweeps that tried them, the best first.
    """
    losses = dict.fromkeys(c.loss for each in sweeps for c in each.ranking.candidates)
    found = {loss: [each.ranking.best_of(loss) for each in sweeps] for loss in losses}
    return dict(sorted(found.items(), key=lambda item: _mean_rank(sweeps, item[1])))


def _mean_rank(sweeps: Sequence[Beside], best: Sequence[Candidate | None]) -> float:
    ranks = [
        each.ranking.candidates.index(candidate)
        for each, candidate in zip(sweeps, best, strict=True)
        if candidate is not None
    ]
    return sum(ranks) / len(ranks) if ranks else math.inf
