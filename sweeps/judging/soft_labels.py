"""Judges predictions by soft labels: shares of annotators, or probabilities, of each class.

A sample counts as each of its classes with that class's share, so every metric is its expectation
over labels drawn from the shares.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from sweeps.judging.inputs import Predicted
from trainables.metrics.inference.clusters import Clusters, clusters_of
from trainables.metrics.inference.influence import mean_interval
from trainables.metrics.smooth import smooth_error

Facts = dict[str, Any]

_LEVEL = 0.95
_NUM_BINS = 15
_ROUNDING = 1e-6  # of float32: a confidence of .6 is not above the edge .6


def judged_by_soft_labels(model: Predicted) -> Facts:
    """Metrics that are known for soft labels; means have intervals over samples."""
    assert model.soft is not None
    shares, probs = model.soft.double(), model.probs.double()
    confidence, winner = probs.max(dim=1)
    right = shares.gather(1, winner[:, None])[:, 0]
    logs = model.logits.double() if model.floor else model.logits.double().log_softmax(dim=1)
    losses = -(shares * logs).sum(dim=1)
    squares = (probs**2).sum(dim=1) - 2 * (probs * shares).sum(dim=1) + 1
    clusters = clusters_of(model.clusters, len(right))
    count, sums = _bins(confidence, right)
    gaps = (sums[0] - sums[1]) / len(right)
    size = count.clamp(min=1)
    edges = torch.linspace(0, 1, _NUM_BINS + 1, dtype=torch.float64)
    return {
        "name": model.name,
        "samples": len(right),
        "classes": len(model.classes),
        "clusters": None if clusters is None else len(clusters),
        "metrics": {
            "ece": _value(gaps.abs().sum()),
            "smooth_ece": _value(smooth_error(confidence, right)),
            "nll": _mean(losses, clusters),
            "brier": _mean(squares, clusters),
            "accuracy": _mean(right, clusters),
            "error": _mean(1 - right, clusters),
        },
        "direction": _direction(confidence - right, gaps, clusters),
        "bins": {
            "lower": edges[:-1].tolist(),
            "upper": edges[1:].tolist(),
            "count": count.int().tolist(),
            "confidence": (sums[0] / size).tolist(),
            "accuracy": (sums[1] / size).tolist(),
        },
        "per_class": [],
        "per_group": [],
    }


def _bins(confidence: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
    """Counts (15,) and sums of confidence and of correctness (2, 15) in bins (lower, upper]."""
    place = (confidence * _NUM_BINS * (1 - _ROUNDING)).ceil().long().clamp(1, _NUM_BINS) - 1
    sums = [place.bincount(weights, _NUM_BINS) for weights in (confidence, right)]
    return place.bincount(minlength=_NUM_BINS).double(), torch.stack(sums)


def _direction(gaps: Tensor, of_bins: Tensor, clusters: Clusters | None) -> Facts:
    gap = _mean(gaps, clusters)
    word = "overconfident" if gap["low"] > 0 else "underconfident" if gap["high"] < 0 else "neither"
    return {
        "word": word,
        "gap": gap["value"],
        "low": gap["low"],
        "high": gap["high"],
        "over": _value(of_bins.clamp(min=0).sum()),
        "under": _value((-of_bins).clamp(min=0).sum()),
    }


def _mean(values: Tensor, clusters: Clusters | None) -> Facts:
    low, high = mean_interval(values, _LEVEL, clusters)
    return {"value": float(values.mean()), "low": low, "high": high}


def _value(value: Tensor | float) -> Facts:
    return {"value": float(value), "low": math.nan, "high": math.nan}
