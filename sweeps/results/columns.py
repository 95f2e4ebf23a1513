"""The metrics in tables, which depend on the sweep's objective."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Annotated, Any, Final, Literal

from pydantic import PlainSerializer, PlainValidator

from sweeps.messages.formatting import metric_heading, objective_heading
from trainables.contract.metric_names import MetricName

_AUROC: Final = "test_auroc"
BY_CHANCE: Final = ("ECE by", "chance")


def objective_metric(objective: str) -> str:
    """The metric behind an objective: ``nll`` of ``val_nll_scaled``; ECE for the error."""
    metric = MetricName.parse(objective).metric
    return "ece" if metric == "error" else metric


def shown_metrics(objective: str, *, rare: bool = False) -> dict[str, tuple[str, str]]:
    """The metrics of a trial that a table shows, each with its heading in two lines.

    On the validation split: the error, the objective's metric and, for a calibration error, the
    bound of a calibrated model. On the test split: both, and the metric with a temperature; the
    AUROC if the objective is about an event, or a class is `rare`, because errors then say little.
    Last the temperature.
    """
    metric = objective_metric(objective)
    scaled = MetricName.parse(objective).scaled
    judged = MetricName(metric, "val", scaled)
    bound = {judged.with_statistic("calibrated_high"): BY_CHANCE}
    heading = metric_heading(metric)
    return {
        "val_error": ("error", "val"),
        str(judged): (heading, "val with T" if scaled else "val"),
        **(bound if metric.endswith("ece") else {}),
        "test_error": ("error", "test"),
        str(MetricName(metric, "test")): (heading, "test"),
        str(MetricName(metric, "test", scaled=True)): (heading, "with T"),
        **({_AUROC: ("AUROC", "test")} if rare or metric == "event_ece" else {}),
        "temperature": ("", "T"),
    }


def with_rare_class(rows: Sequence[LeaderboardRow]) -> bool:
    """Whether these rows are of data with a rare class."""
    return any(_AUROC in row.metrics for row in rows)


def one_line(heading: tuple[str, str]) -> str:
    """``val ECE``, ``ECE with T``, ``T``: a heading of :func:`shown_metrics` in one line."""
    name, split = heading
    first, _, more = split.partition(" ")
    return " ".join((first, name, more) if first in ("val", "test") else heading).strip()


RowKind = Literal[
    "selected",
    "baseline",
    "finalist",
    "one seed",
    "beyond a limit",
    "same as the baseline",
    "unfinished",
    "untried",
    "reference",
    "ensemble",
    "seeds",
]


@dataclass(frozen=True)
class LeaderboardRow:
    """A row of the leaderboard.

    Attributes:
        kind: Why it is there: the loss of a candidate, or reference models, or several networks.
        note: The same for people.
        metrics: By name, those of :func:`shown_metrics` and ``objective``.
        trials: How many trials of the loss ended how.
        seeds: Number of fresh seeds.
        recommended: Whether the sweep recommends it.
    """

    kind: RowKind
    loss: str
    note: str
    metrics: Mapping[str, float]
    hyperparameters: Mapping[str, Any] = field(default_factory=dict)
    trials: Mapping[str, int] = field(default_factory=dict)
    seeds: int = 0
    recommended: bool = False

    @property
    def is_judged(self) -> bool:
        """Whether it was a candidate within the limits."""
        return self.kind in ("selected", "baseline", "finalist", "one seed")

    @classmethod
    def from_json(cls, kept: Mapping[str, Any]) -> LeaderboardRow:
        own = {each.name: kept[each.name] for each in fields(cls) if each.name in kept}
        metrics = {key: value for key, value in kept.items() if key not in own}
        kind = "ensemble" if kept["loss"] == "ensemble" else "seeds"  # stores of format 1
        return cls(**{"kind": kind, **own, "metrics": metrics})

    def value(self, metric: str) -> float:
        return self.metrics.get(metric, math.nan)

    def to_json(self) -> dict[str, object]:
        others = {key: value for key, value in vars(self).items() if key != "metrics"}
        return {**others, **self.metrics}


StoredRow = Annotated[
    LeaderboardRow,
    PlainValidator(LeaderboardRow.from_json),
    PlainSerializer(LeaderboardRow.to_json),
]
"""A row in documents, where its metrics are fields like the others."""


def legend(rows: Sequence[LeaderboardRow], objective: str) -> list[str]:
    """What the headings and notes of a leaderboard mean, a sentence each."""
    lines = ["T: the fitted temperature; values are means over seeds."]
    if BY_CHANCE in shown_metrics(objective).values():
        lines.append("ECE by chance: a perfectly calibrated model may show this much.")
    if any(row.kind == "selected" and not row.recommended for row in rows):
        lines.append(
            f"Selected: the lowest validation {objective_heading(objective)} at an allowed error; "
            "★: what to deploy."
        )
    return lines
