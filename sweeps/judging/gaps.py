"""Gaps between what probabilities promise and what happened, with intervals."""

from __future__ import annotations

from torch import Tensor

from sweeps.judging.facts import Gap
from sweeps.judging.inputs import Predicted
from trainables.metrics.inference.clusters import Clusters, clusters_of
from trainables.metrics.inference.direction import gap_interval


def clusters_of_rows(model: Predicted, rows: Tensor) -> Clusters | None:
    return None if model.clusters is None else clusters_of(model.clusters[rows], len(rows))


def gap_of(expected: Tensor, right: Tensor, level: float, clusters: Clusters | None) -> Gap:
    """Mean of what is expected (N,) less the share of what is right (N,), with an interval.

    It also holds if all of a few are right.
    """
    ends = gap_interval(expected, right, level, clusters)
    return Gap(float((expected.double() - right.double()).mean()), *ends)
