"""The leaderboard of the terminal, the report and Python: one row per loss, best first."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from sweeps.results.columns import shown_metrics
from sweeps.results.recommendation import STAR
from sweeps.search.ranking import Candidate, Ranking
from sweeps.search.record import TrialRecord
from sweeps.search.untried import Untried
from trainables.contract.setting import BASELINE_LOSS

NOT_TRIED: Final = "not tried"
"""The note of a loss without a trial."""


def leaderboard(ranking: Ranking) -> list[dict[str, Any]]:
    """One row per loss, best first: its best setting and the results of this setting.

    A loss without finished trials is represented by the trial with the most epochs. ``trials`` says
    how they ended, ``seeds`` is the number of fresh seeds; the metrics are those of
    :func:`~sweeps.results.columns.shown_metrics`, means over the judged seeds.
    """
    heads = [r for r in ranking.records if r.role != "encoder"]
    losses = dict.fromkeys([c.loss for c in ranking.candidates] + [r.loss for r in heads])
    rows = []
    for loss in losses:
        own = [r for r in heads if r.loss == loss]
        best = ranking.best_of(loss)
        if best is not None:
            note, best = _note(best, ranking), ranking.shown_as(best)
            judged = best.judged
        else:
            furthest = max(own, key=lambda r: (r.epochs, -r.outcome.get("val_nll", math.inf)))
            judged, note = (furthest,), _unfinished_note(furthest)
        rows.append(
            {
                "loss": loss,
                "hyperparameters": (judged[0] if best is None else best).setting.hyperparameters,
                "trials": dict(Counter(r.state for r in own)),
                **{name: _mean(judged, name) for name in shown_metrics(ranking.rule.objective)},
                "objective": _mean(judged, ranking.rule.objective),
                "seeds": best.seeds if best is not None else 0,
                "note": note,
            }
        )
    return rows


def untried_rows(untried: Sequence[Untried], objective: str) -> list[dict[str, Any]]:
    """Rows like those of :func:`leaderboard`, of losses that were not tried."""
    return [
        {
            "loss": each.setting.loss,
            "hyperparameters": each.setting.hyperparameters,
            "trials": {},
            **dict.fromkeys(shown_metrics(objective), math.nan),
            "objective": math.nan,
            "seeds": 0,
            "note": NOT_TRIED
            if math.isnan(each.expected)
            else f"{NOT_TRIED}; {each.expected:.4f} expected",
        }
        for each in untried
    ]


def star(row: Mapping[str, Any]) -> str:
    """What precedes a row's loss in tables: a star if it is what the sweep recommends."""
    return STAR if row.get("recommended") else ""


def in_short(rows: Sequence[dict[str, Any]], most: int = 6) -> list[dict[str, Any]]:
    """The rows of a leaderboard to show first.

    They are the best losses, `most` with the selected one and the baseline; reference models and
    ensembles, which have no trials.
    """
    kept = [row for row in rows if row["trials"] and row["note"] in ("selected", "baseline")]
    for row in rows:
        if row["trials"] and row not in kept and len(kept) < most:
            kept.append(row)
    return [row for row in rows if not row["trials"] or row in kept]


def front_rows(ranking: Ranking) -> list[dict[str, Any]]:
    """A row for each setting of the Pareto front; none if there is one objective."""
    return [
        {
            "loss": each.loss,
            "hyperparameters": each.setting.hyperparameters,
            "trial": each.trials[0].number,
            "seeds": each.seeds,
            **dict(zip(ranking.rule.objectives, each.objectives, strict=True)),
        }
        for each in (ranking.front if ranking.rule.others else ())
    ]


def _note(candidate: Candidate, ranking: Ranking) -> str:
    if candidate == ranking.chosen:
        return "selected"
    if not candidate.feasible:
        return candidate.broken[0].broken(by_baseline=ranking.baseline is not None)
    if ranking.repeats_baseline(candidate):
        return f"same as {BASELINE_LOSS}"
    name = "baseline" if candidate.loss == BASELINE_LOSS else ""
    return name or ("finalist" if candidate.seeds else "one seed")


def _unfinished_note(record: TrialRecord) -> str:
    if record.state == "failed":
        return f"failed: {record.reason}"
    how = "not finished, at" if record.state == "running" else "stopped at"
    return f"{how} epoch {record.epochs}"


def _mean(records: Sequence[TrialRecord], name: str) -> float:
    values = [record.outcome.get(name, math.nan) for record in records]
    return sum(values) / len(values)
