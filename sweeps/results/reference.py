"""The reference models of a sweep: rows of the leaderboard, and whether one is better."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sweeps.results.columns import LeaderboardRow, shown_metrics
from sweeps.results.verdicts import Comparison
from sweeps.search.ranking import Candidate
from sweeps.search.record import Entry, TrialRecord
from trainables.contract.setting import Setting

_Z: Final = 1.96  # half-width of a 95 % interval in standard deviations


@dataclass(frozen=True)
class ReferenceResult:
    """The result of a reference model; metrics are named like those of trials.

    Attributes:
        number: Below 0, of its folder in the store; 0 if an earlier version fitted it.
    """

    name: str
    outcome: dict[str, float]
    test_samples: int
    number: int = 0

    @property
    def record(self) -> TrialRecord:
        """It as a trial, by which its predictions are read, scaled and handed out."""
        history: list[Entry] = [{"epoch": 0, **self.outcome}]
        setting = Setting(self.name, {})
        return TrialRecord(self.number, "published", setting, 0, 0.0, "finished", history=history)


def deliverable(references: Sequence[ReferenceResult]) -> ReferenceResult | None:
    """The one to hand out, with the lowest NLL after a temperature on the validation split."""
    return best_reference([each for each in references if each.number < 0], "val_nll_scaled")


def advice(found: Comparison | None) -> str:
    """What to say first if a reference model is shown to be better than what is recommended."""
    if found is None or found.verdict != "supported":
        return ""
    ours, ends = found.ours.setting, f"[{-found.high:.4f}, {-found.low:.4f}]"
    return (
        f"{ours[0].upper()}{ours[1:]} is better than {found.theirs.setting} by "
        f"{-found.value:.4f} NLL {ends} on the test split: use it (`calsweep export NAME "
        "--reference`)."
    )


def reference_rows(
    references: Sequence[ReferenceResult], objective: str, *, rare: bool = False
) -> list[LeaderboardRow]:
    """Rows like those of :func:`~sweeps.results.leaderboard.leaderboard`, never selected."""
    names = {**{name: name for name in shown_metrics(objective, rare=rare)}, "objective": objective}
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
