"""The best setting of a running sweep and the reason, for the progress line."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Final

from sweeps.messages.formatting import counted
from sweeps.search.ranking import Candidate, Ranking
from trainables.contract.setting import BASELINE_LOSS


@dataclass(frozen=True)
class SoFar:
    """The best setting so far, or that there is none yet, and why."""

    best: str
    why: str = ""

    def __str__(self) -> str:
        """Both in one line."""
        return f"{self.best} ({self.why})" if self.why else self.best


NONE_YET: Final = SoFar("none has finished yet")


def so_far(ranking: Ranking) -> SoFar:
    """The best of the trials that have ended, and the reason."""
    chosen = ranking.chosen
    if chosen is None:
        if not ranking.candidates:
            return NONE_YET
        return SoFar(f"none of {counted(len(ranking.candidates), 'setting')} passes", _out(ranking))
    value = f"{ranking.rule.objective} {chosen.objective:.4f}"
    seeds = f", mean of {counted(chosen.seeds, 'fresh seed')}" if chosen.seeds else ""
    reasons = (*_beside_baseline(chosen, ranking), _front(ranking), _out(ranking))
    return SoFar(f"{chosen.trials[0].label}, {value}{seeds}", "; ".join(filter(None, reasons)))


def _beside_baseline(chosen: Candidate, ranking: Ranking) -> tuple[str, ...]:
    baseline, guard = ranking.baseline, f"guard {ranking.rule.guard:g}"
    if chosen == baseline:
        return (f"nothing is below {BASELINE_LOSS} yet",)
    if baseline is None:
        return (f"{BASELINE_LOSS} has not finished", f"error {chosen.val_error:.4f}, {guard}")
    lower = baseline.objective - chosen.objective
    return (
        f"{abs(lower):.4f} {'below' if lower >= 0 else 'above'} {BASELINE_LOSS}",
        f"error {chosen.val_error - baseline.val_error:+.4f}, {guard}",
    )


def _front(ranking: Ranking) -> str:
    if not ranking.rule.others:
        return ""
    return f"first of {len(ranking.front)} on the front of {' and '.join(ranking.rule.objectives)}"


def _out(ranking: Ranking) -> str:
    chosen = ranking.chosen
    out = [
        each
        for each in ranking.candidates
        if not each.feasible and (chosen is None or each.objective < chosen.objective)
    ]
    if not out:
        return ""
    broken = Counter(limit.too_far for each in out for limit in each.broken)
    lower = "" if chosen is None else f"{len(out)} lower left out: "
    return lower + ", ".join(broken)
