"""Compares several sweeps, for example on different datasets or with different models."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

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
    def metric(self) -> MetricName:
        """The metric of the objective on the test split."""
        return MetricName(MetricName.parse(self.sweep.objective).metric, "test")

    @property
    def on_test(self) -> tuple[float, ...]:
        """The metric of the selected setting, with a temperature, and both of cross-entropy."""
        return tuple(
            math.nan if each is None else each.mean(name)
            for each in (self.ranking.chosen, self.ranking.baseline)
            for name in (self.metric, replace(self.metric, scaled=True))
        )

    @property
    def over(self) -> str:
        """`` over 57 groups``, if groups are the unit of the selected setting's interval."""
        chosen = self.ranking.chosen
        return "" if chosen is None else over_groups(chosen.mean(groups_name("test")))


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
