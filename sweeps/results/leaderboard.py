"""The leaderboard of the terminal, the report and Python: one row per loss, best first."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import PlainSerializer

from sweeps.results.columns import LeaderboardRow, RowKind, shown_metrics
from sweeps.search.ranking import Candidate, Ranking, mean_over
from sweeps.search.record import TrialRecord
from sweeps.search.untried import Untried
from trainables.contract.setting import BASELINE_LOSS


def leaderboard(ranking: Ranking) -> list[LeaderboardRow]:
    """One row per loss, best first: its best setting and the results of this setting.

    A loss without finished trials is represented by the trial with the most epochs. Metrics are
    means over the judged seeds.
    """
    heads = [r for r in ranking.records if r.role != "encoder"]
    losses = dict.fromkeys([c.loss for c in ranking.candidates] + [r.loss for r in heads])
    rows = []
    kind: RowKind
    for loss in losses:
        own = [r for r in heads if r.loss == loss]
        best = ranking.best_of(loss)
        if best is not None:
            (kind, note), best = _kind(best, ranking), ranking.shown_as(best)
            judged = best.judged
        else:
            furthest = max(own, key=lambda r: (r.epochs, -r.outcome.get("val_nll", math.inf)))
            judged, kind, note = (furthest,), "unfinished", _unfinished_note(furthest)
        objective = ranking.rule.objective
        shown = shown_metrics(objective, rare=ranking.rare_class)
        metrics = {name: mean_over(judged, name) for name in shown}
        rows.append(
            LeaderboardRow(
                kind,
                loss,
                note,
                {**metrics, "objective": mean_over(judged, objective)},
                (judged[0] if best is None else best).setting.hyperparameters,
                Counter(r.state for r in own),
                best.seeds if best is not None else 0,
            )
        )
    return rows


def untried_rows(untried: Sequence[Untried]) -> list[LeaderboardRow]:
    """Rows like those of :func:`leaderboard`, of losses that were not tried."""
    return [
        LeaderboardRow(
            "untried",
            each.setting.loss,
            "not tried" + ("" if math.isnan(each.expected) else f"; {each.expected:.4f} expected"),
            {},
            each.setting.hyperparameters,
        )
        for each in untried
    ]


def in_short(rows: Sequence[LeaderboardRow], most: int = 6) -> list[LeaderboardRow]:
    """The rows of a leaderboard to show first.

    They are the best losses, `most` with the selected one and the baseline; reference models and
    ensembles, which have no trials.
    """
    kept = [row for row in rows if row.trials and row.kind in ("selected", "baseline")]
    for row in rows:
        if row.trials and row not in kept and len(kept) < most:
            kept.append(row)
    return [row for row in rows if not row.trials or row in kept]


@dataclass(frozen=True)
class FrontRow:
    """A setting of the Pareto front: its trial of the search, and its objectives by name."""

    loss: str
    hyperparameters: Mapping[str, Any]
    trial: int
    seeds: int
    objectives: Mapping[str, float]

    def to_json(self) -> dict[str, object]:
        own = {key: value for key, value in vars(self).items() if key != "objectives"}
        return {**own, **self.objectives}


StoredFront = tuple[Annotated[FrontRow, PlainSerializer(FrontRow.to_json)], ...] | None
"""The Pareto front in documents, where objectives are fields; None if there is one objective."""


def front_rows(ranking: Ranking) -> tuple[FrontRow, ...] | None:
    """A row for each setting of the Pareto front; None if there is one objective."""
    if not ranking.rule.others:
        return None
    return tuple(
        FrontRow(
            each.loss,
            each.setting.hyperparameters,
            each.trials[0].number,
            each.seeds,
            dict(zip(ranking.rule.objectives, each.objectives, strict=True)),
        )
        for each in ranking.front
    )


def _kind(candidate: Candidate, ranking: Ranking) -> tuple[RowKind, str]:
    """The kind of its row, and the note."""
    kind: RowKind = "finalist" if candidate.seeds else "one seed"
    if candidate == ranking.chosen:
        kind = "selected"
    elif not candidate.feasible:
        broken = candidate.broken[0].broken(by_baseline=ranking.baseline is not None)
        return "beyond a limit", broken
    elif ranking.repeats_baseline(candidate):
        return "same as the baseline", f"same as {BASELINE_LOSS}"
    elif candidate.loss == BASELINE_LOSS:
        kind = "baseline"
    return kind, kind


def _unfinished_note(record: TrialRecord) -> str:
    if record.state == "failed":
        return f"failed: {record.reason}"
    how = "not finished, at" if record.state == "running" else "stopped at"
    return f"{how} epoch {record.epochs}"
