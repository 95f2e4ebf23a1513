"""Judges predictions by soft labels: shares of annotators, or probabilities, of each class.

A sample counts as each of its classes with that class's share, so every metric is its expectation
over labels drawn from the shares.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from sweeps.judging.facts import Judged
from sweeps.judging.inputs import Predicted
from sweeps.judging.measured import Measured, mean_of
from trainables.metrics import Direction, ReliabilityBins
from trainables.metrics.inference.clusters import clusters_of
from trainables.metrics.inference.unseen import (
    unseen_log_losses_of_logits,
    unseen_squared_errors,
)
from trainables.metrics.smooth import smooth_error

_NUM_BINS = 15
_ROUNDING = 1e-6  # of float32: a confidence of .6 is not above the edge .6


def judged_by_soft_labels(model: Predicted) -> Judged:
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
    metrics = {
        "ece": Measured(float(gaps.abs().sum())),
        "smooth_ece": Measured(float(smooth_error(confidence, right))),
        "nll": mean_of(losses, clusters, unseen_log_losses_of_logits(model.logits)),
        "brier": mean_of(squares, clusters, unseen_squared_errors(probs)),
        "accuracy": mean_of(right, clusters, (0.0, 1.0)),
        "error": mean_of(1 - right, clusters, (0.0, 1.0)),
    }
    sure = float(confidence.mean())
    gap = mean_of(confidence - right, clusters, (sure - 1, sure))
    parts = ((float((sign * gaps).clamp(min=0).sum()), math.nan, math.nan) for sign in (1, -1))
    direction = Direction((gap.value, gap.low, gap.high), *parts)
    edges = torch.linspace(0, 1, _NUM_BINS + 1, dtype=torch.float64)
    return Judged(
        name=model.name,
        samples=len(right),
        classes=len(model.classes),
        clusters=None if clusters is None else len(clusters),
        metrics=metrics,
        direction=direction,
        bins=ReliabilityBins(edges[:-1], edges[1:], count, *(sums / count.clamp(min=1))),
    )


def _bins(confidence: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
    """Counts (15,) and sums of confidence and of correctness (2, 15) in bins (lower, upper]."""
    place = (confidence * _NUM_BINS * (1 - _ROUNDING)).ceil().long().clamp(1, _NUM_BINS) - 1
    sums = [place.bincount(weights, _NUM_BINS) for weights in (confidence, right)]
    return place.bincount(minlength=_NUM_BINS).double(), torch.stack(sums)
