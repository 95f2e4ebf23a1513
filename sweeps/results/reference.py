"""The reference models of a sweep: rows of the leaderboard, and a warning if they are better."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sweeps.results.columns import LeaderboardRow, shown_metrics
from sweeps.search.ranking import Candidate, Ranking

_Z: Final = 1.96  # half-width of a 95 % interval in standard deviations


@dataclass(frozen=True)
class ReferenceResult:
    """The result of a reference model; metrics are named like those of trials."""

    name: str
    outcome: dict[str, float]
    test_samples: int


def reference_rows(references: Sequence[ReferenceResult], objective: str) -> list[LeaderboardRow]:
    """Rows like those of :func:`~sweeps.results.leaderboard.leaderboard`, never selected."""
    names = {**{name: name for name in shown_metrics(objective)}, "objective": objective}
    return [
        LeaderboardRow(
            "reference",
            each.name,
            "reference",
            {key: each.outcome.get(name, math.nan) for key, name in names.items()},
        )
        for each in references
    ]


def best_reference(
    references: Sequence[ReferenceResult], metric: str = "test_error"
) -> ReferenceResult | None:
    """The reference model with the lowest value of a metric, if any is known."""
    known = [each for each in references if math.isfinite(each.outcome.get(metric, math.nan))]
    return min(known, key=lambda each: each.outcome[metric], default=None)


def is_clearly_better(reference: ReferenceResult, network: Candidate) -> bool:
    """Whether its test error is lower by more than chance allows.

    That is, by more than the 95 % interval for two independent samples of this size. This is
    conservative, because both use the same test samples.
    """
    ours, theirs = network.mean("test_error"), reference.outcome["test_error"]
    variance = (ours * (1 - ours) + theirs * (1 - theirs)) / reference.test_samples
    return ours - theirs > _Z * math.sqrt(variance)


def reference_warnings(ranking: Ranking, references: Sequence[ReferenceResult]) -> list[str]:
    """A warning if the baseline network has a clearly higher test error than a reference model."""
    baseline, best = ranking.baseline, best_reference(references)
    if baseline is None or best is None or not is_clearly_better(best, baseline):
        return []
    ours, theirs = baseline.mean("test_error"), best.outcome["test_error"]
    return [
        f"The network is worse than {best.name}: its test error is {ours:.3f} with cross-entropy, "
        f"that of {best.name} {theirs:.3f}. Improve the model or its training before you use what "
        "this sweep says of losses."
    ]
