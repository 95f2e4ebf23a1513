"""Prediction sets of a model: their coverage, also of each class, and their size."""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor

from sweeps.judging.events import MOST_CLASSES
from sweeps.judging.facts import Sets, SetsFound, SetsKind
from sweeps.judging.gaps import clusters_of_rows
from sweeps.judging.inputs import Predicted
from sweeps.judging.measured import LEVEL, Measured, share_where
from trainables.metrics._inputs import probabilities
from trainables.metrics.inference.clusters import Clusters
from trainables.posthoc.chosen import Candidate, cross_fitted_scaling
from trainables.posthoc.conformal import SCORES, ClassSets, PredictionSets
from trainables.posthoc.crossfit import random_folds

_COVERAGE: Final = 0.9
_MIN_FOR_SETS: Final = 200  # samples; a quarter of them calibrates the sets at a time
_SET_ELEMENTS: Final = 2_000_000  # N · K at most for measuring prediction sets
_KINDS: Final[dict[SetsKind, type[PredictionSets]]] = {
    "all": PredictionSets,
    "per_class": ClassSets,
}


def judged_sets(
    scaling: Candidate, model: Predicted, clusters: Clusters | None, kind: SetsKind
) -> Sets | None:
    """Prediction sets of scaled logits, measured on samples that were not used to fit.

    Each half is scaled by a method that was fitted on the other half. One part of each half
    calibrates the sets, which are measured on the other part. With up to 20 classes, also for the
    samples of each class.
    """
    logits, labels, ids = model.logits, model.labels, model.clusters
    count = min(len(labels), _SET_ELEMENTS // logits.shape[1])
    if count < _MIN_FOR_SETS or (clusters is not None and not clusters.enough):
        return None
    drawn = torch.randperm(len(labels), generator=torch.Generator().manual_seed(1))[:count]
    probs = probabilities(cross_fitted_scaling(scaling, logits, labels, ids)[drawn])
    part = torch.arange(count) % 2
    if ids is not None:
        part = random_folds(len(labels), seed=1, clusters=ids)[drawn]
    quarter = 2 * random_folds(len(labels), clusters=ids)[drawn] + part
    labels, clusters = labels[drawn], clusters_of_rows(model, drawn)
    found: dict[str, SetsFound] = {}
    for method in SCORES:
        right, size = torch.zeros(count, dtype=torch.float64), 0
        for own in range(4):
            fitted, measured = quarter == own, quarter == own ^ 1  # the other part of the half
            sets = _KINDS[kind](method, _COVERAGE).fit(probs[fitted], labels[fitted])
            inside = sets(probs[measured])
            right[measured] = inside.gather(1, labels[measured][:, None])[:, 0].double()
            size += int(inside.sum())
        of_class = _per_class(model, right, labels, drawn)
        found[method] = SetsFound(share_where(right, clusters), size / count, of_class)
    return Sets(_COVERAGE, count, found, kind)


def _per_class(
    model: Predicted, right: Tensor, labels: Tensor, drawn: Tensor
) -> dict[str, Measured]:
    """Coverage of the samples of each class; empty with many classes."""
    if len(model.classes) > MOST_CLASSES:
        return {}
    level = 1 - (1 - LEVEL) / len(model.classes)
    found = {}
    for index, name in enumerate(model.classes):
        own = labels == index
        if own.any():
            found[name] = share_where(right[own], clusters_of_rows(model, drawn[own]), level)
    return found
