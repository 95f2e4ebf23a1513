"""Facts of a judgement as plain data."""

from __future__ import annotations

from typing import Any, Final

from torch import Tensor

from sweeps.judging.inputs import Predicted
from trainables.metrics import Direction, ReliabilityBins
from trainables.metrics.inference.clusters import Clusters
from trainables.metrics.inference.influence import mean_interval

Facts = dict[str, Any]
LEVEL: Final = 0.95


def facts_of(found: tuple[float, float, float]) -> Facts:
    return dict(zip(("value", "low", "high"), found, strict=True))


def mean_facts(values: Tensor, clusters: Clusters | None) -> Facts:
    """A mean over samples (N,) with its interval."""
    return facts_of((float(values.mean()), *mean_interval(values, LEVEL, clusters)))


def common_facts(
    model: Predicted,
    metrics: Facts,
    direction: Direction,
    bins: ReliabilityBins,
    clusters: Clusters | None,
) -> Facts:
    """What is known of every model; empty bins may have NaN."""
    gap, low, high = direction.gap
    return {
        "name": model.name,
        "samples": len(model.labels),
        "classes": len(model.classes),
        "clusters": None if clusters is None else len(clusters),
        "metrics": metrics,
        "direction": {
            "word": direction.word,
            "gap": gap,
            "low": low,
            "high": high,
            "over": facts_of(direction.over),
            "under": facts_of(direction.under),
        },
        "bins": {key: column.tolist() for key, column in vars(bins).items()}
        | {"count": bins.count.int().tolist()},
        "per_class": [],
        "per_group": [],
    }
