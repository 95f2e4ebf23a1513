"""Judges existing predictions: metrics, what scaling would achieve, comparisons."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice

import numpy as np
import torch
from threadpoolctl import threadpool_limits
from torch import Tensor

from sweeps.errors import UserError
from sweeps.judging.facts import LEVEL, Facts, common_facts, facts_of, mean_facts
from sweeps.judging.inputs import Predicted
from sweeps.judging.soft_labels import judged_by_soft_labels
from trainables import metrics as M
from trainables.metrics._inputs import probabilities
from trainables.metrics.inference.clusters import Clusters, clusters_of
from trainables.metrics.inference.influence import share_interval
from trainables.metrics.proper_scores import log_losses_of_logits
from trainables.posthoc import PostHoc, TemperatureScaling, cross_fitted
from trainables.posthoc.conformal import SCORES, PredictionSets
from trainables.posthoc.crossfit import random_folds
from trainables.posthoc.structured import cross_fitted_scalings, simplest_good

_OF_SCALING = ("nll", "brier", "ece", "error")
COMPARED = ("nll", "brier", "ece", "error")
_TOP_LABEL = (
    *("ece", "adaptive_ece", "mce", "smooth_ece", "kde_ece", "debiased_ece", "accuracy", "error"),
    *("failure_auroc", "aurc", "e_aurc"),
)
_OF_GROUPS = ("error", "nll", "ece")
_COVERAGE = 0.9
_MIN_FOR_SETS = 200  # samples; a quarter of them calibrates the sets at a time
_SET_ELEMENTS = 2_000_000  # N · K at most for measuring prediction sets
_MIN_IN_GROUP = 20
_SMALL = 200_000  # N · K up to which one thread is as fast as several


def judge(models: Sequence[Predicted]) -> Facts:
    """Judge the predictions of one model, or of several on the same samples.

    Args:
        models: Their predictions. The others are compared with the first.

    Returns:
        Plain data, as ``calsweep judge --format json`` prints it: ``read``, one line for each
        model that says what was read as what; ``models``, one entry each with
        ``name``, ``samples``, ``classes``, ``clusters`` (their number, if they are the unit of
        intervals), ``metrics`` (name → value, low, high), ``direction``
        (mean confidence less accuracy, and the over- and underconfident parts of the ECE),
        ``scaling`` (method → the same metrics, cross-fitted), ``recommended`` (one of the
        methods), ``refinement`` (NLL after it) and ``calibration`` (the rest of the NLL),
        ``temperature`` and whether it is ``at_bound``, the ``floor`` of probabilities of 0 and the
        number of samples ``at_floor``, ``bins`` (of the reliability diagram), ``per_class``,
        ``per_group``, ``sets``; and ``comparison``, one entry for each metric and further model. A
        model of which only the predicted class and its probability are known has no entry from
        ``scaling`` to ``at_floor`` and no ``sets``.

    Raises:
        UserError: Two models have different labels or the same name.
    """
    first, *others = models
    names = [each.name for each in models]
    if twice := {name for name in names if names.count(name) > 1}:
        raise UserError(f"two models are called {twice.pop()!r}; give each its own name")
    for other in others:
        _check_same_samples(first, other)
    top_label_only = any(each.top_label_only for each in models)
    metrics = [each for each in COMPARED if not top_label_only or each in _TOP_LABEL]
    with _one_thread_if(first.probs.numel() <= _SMALL):
        return {
            "read": [str(model.read) for model in models],
            "models": [_judged(model) for model in models],
            "comparison": [each for other in others for each in verdicts(metrics, other, first)],
        }


@contextmanager
def _one_thread_if(small: bool) -> Iterator[None]:
    """Context: PyTorch and BLAS use one thread. On a busy machine, further threads mostly wait."""
    if not small:
        yield
        return
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(1, user_api="blas"):
            yield
    finally:
        torch.set_num_threads(before)


def _check_same_samples(first: Predicted, other: Predicted) -> None:
    if first.soft is not None or other.soft is not None:
        raise UserError(
            f"{other.name} and {first.name} are not compared, because labels are soft; judge one "
            "at a time"
        )
    if first.probs.shape != other.probs.shape:
        raise UserError(
            f"{other.name} has predictions of shape {tuple(other.probs.shape)}, {first.name} "
            f"{tuple(first.probs.shape)}; models are compared on the same samples and classes"
        )
    if not _same_clusters(first, other):
        raise UserError(f"{other.name} and {first.name} have different clusters")
    differ = first.labels != other.labels
    if differ.any():
        raise UserError(
            f"{other.name} and {first.name} have different labels in {int(differ.sum())} rows, "
            f"first in row {int(differ.int().argmax())} (from 0); models are compared on the same "
            "samples in the same order"
        )


def _same_clusters(first: Predicted, other: Predicted) -> bool:
    if first.clusters is None or other.clusters is None:
        return first.clusters is other.clusters
    return torch.equal(first.clusters, other.clusters)


def _judged(model: Predicted) -> Facts:
    if model.soft is not None:
        return judged_by_soft_labels(model)
    if model.top_label_only:
        return _judged_top_label(model)
    probs, labels = model.probs, model.labels
    clusters = clusters_of(model.clusters, len(labels))
    crossed = cross_fitted_scalings(model.logits, labels, model.clusters)
    losses = {make: log_losses_of_logits(logits, labels) for make, logits in crossed.items()}
    best = simplest_good(losses, clusters)
    nll, refinement = float(model.log_losses.mean()), float(losses[best].mean())
    scaler = TemperatureScaling().fit(model.logits, labels)
    metrics = _intervals(M.METRIC_NAMES, probs, labels, model.clusters)
    return {
        **_common(model, metrics | {"nll": mean_facts(model.log_losses, clusters)}, clusters),
        "scaling": {
            make.name: _intervals(_OF_SCALING, probabilities(logits), labels, model.clusters)
            | {"nll": mean_facts(losses[make], clusters)}
            for make, logits in crossed.items()
        },
        "recommended": best.name,
        "refinement": refinement,
        "calibration": nll - refinement,
        "temperature": scaler.temperature,
        "at_bound": scaler.at_bound,
        "floor": model.floor,
        "at_floor": model.at_floor,
        "per_class": _per_class(model),
        "per_group": [] if model.groups is None else _per_group(model),
        "sets": _sets(best, model, clusters),
    }


def _judged_top_label(model: Predicted) -> Facts:
    """What can be known from the predicted class and its probability: no scaling and no sets."""
    clusters = clusters_of(model.clusters, len(model.labels))
    known = [each for each in _per_class(model) if each["true"] + each["predicted"]]
    metrics = _intervals(_TOP_LABEL, model.probs, model.labels, model.clusters)
    return {
        **_common(model, metrics, clusters),
        "classes": len(known),
        "per_class": known,
        "per_group": [] if model.groups is None else _per_group(model, ("error", "ece")),
    }


def _common(model: Predicted, metrics: Facts, clusters: Clusters | None) -> Facts:
    direction = M.direction(model.probs, model.labels, LEVEL, model.clusters)
    bins = M.reliability_bins(model.probs, model.labels)
    return common_facts(model, metrics, direction, bins, clusters)


def _intervals(
    names: Sequence[str], probs: Tensor, labels: Tensor, clusters: Tensor | None
) -> Facts:
    """Metrics with their intervals, and with the corrected value where noise puts one outside."""
    measured = M.intervals(probs, labels, names, clusters=clusters)
    found = {name: facts_of(each) for name, each in measured.items()}
    if clusters is not None:  # they add more than the correction takes away
        return found
    for name, each in found.items():
        if name in M.CORRECTED and not each["low"] <= each["value"] <= each["high"]:
            each["corrected"] = M.corrected(name, probs, labels)
    return found


def _per_class(model: Predicted) -> list[Facts]:
    confidence, predicted = model.probs.max(dim=1)
    order = predicted.argsort(stable=True)
    counts = predicted.bincount(minlength=len(model.classes)).tolist()
    true = model.labels.bincount(minlength=len(model.classes)).tolist()
    level = 1 - (1 - LEVEL) / max(1, sum(count > 1 for count in counts))
    rows = iter(order.tolist())
    found = []
    for index, name in enumerate(model.classes):
        own = torch.tensor(list(islice(rows, counts[index])), dtype=torch.int64)
        entry: Facts = {"class": name, "true": true[index], "predicted": counts[index]}
        if counts[index]:
            right = (model.labels[own] == index).double()
            entry |= {"confidence": float(confidence[own].mean()), "accuracy": float(right.mean())}
        clusters = _clusters_of(model, own)
        if counts[index] > 1 and (clusters is None or clusters.enough):
            entry |= _gap(confidence[own].double(), right, level, clusters)
        found.append(entry)
    return found


def _per_group(model: Predicted, names: Sequence[str] = _OF_GROUPS) -> list[Facts]:
    assert model.groups is not None
    groups, place = np.unique(model.groups, return_inverse=True)
    level = 1 - (1 - LEVEL) / len(groups)
    found = []
    for index, name in enumerate(groups.tolist()):
        own = torch.from_numpy(np.flatnonzero(place == index))
        probs, labels = model.probs[own], model.labels[own]
        entry: Facts = {"group": name, "samples": len(own)}
        clusters = _clusters_of(model, own)
        if len(own) >= _MIN_IN_GROUP and (clusters is None or clusters.enough):
            ids = None if model.clusters is None else model.clusters[own]
            entry |= _intervals(names, probs, labels, ids)
            confidence, predicted = probs.max(dim=1)
            entry |= {"confidence": float(confidence.mean())}
            entry |= _gap(confidence.double(), (predicted == labels).double(), level, clusters)
        found.append(entry)
    return found


def _clusters_of(model: Predicted, rows: Tensor) -> Clusters | None:
    return None if model.clusters is None else clusters_of(model.clusters[rows], len(rows))


def _gap(confidence: Tensor, right: Tensor, level: float, clusters: Clusters | None) -> Facts:
    """Confidence minus accuracy; the interval also holds for a class that is always correct."""
    accuracy = share_interval(right, level, clusters)
    mean = float(confidence.mean())
    low, high = mean - accuracy[1], mean - accuracy[0]
    word = "overconfident" if low > 0 else "underconfident" if high < 0 else "neither"
    return {"gap": mean - float(right.mean()), "low": low, "high": high, "word": word}


def _sets(make: type[PostHoc], model: Predicted, clusters: Clusters | None) -> Facts:
    """Prediction sets of scaled logits, measured on samples that were not used to fit.

    Each half is scaled by a method that was fitted on the other half. One part of each half
    calibrates the sets, which are measured on the other part.
    """
    logits, labels, ids = model.logits, model.labels, model.clusters
    count = min(len(labels), _SET_ELEMENTS // logits.shape[1])
    if count < _MIN_FOR_SETS or (clusters is not None and not clusters.enough):
        return {}
    drawn = torch.randperm(len(labels), generator=torch.Generator().manual_seed(1))[:count]
    probs = probabilities(cross_fitted(logits, labels, make, clusters=ids)[drawn])
    part = torch.arange(count) % 2
    if ids is not None:
        part = random_folds(len(labels), seed=1, clusters=ids)[drawn]
    quarter = 2 * random_folds(len(labels), clusters=ids)[drawn] + part
    labels, clusters = labels[drawn], _clusters_of(model, drawn)
    found: Facts = {"coverage": _COVERAGE, "samples": count}
    for method in SCORES:
        right, size = torch.zeros(count, dtype=torch.float64), 0
        for own in range(4):
            fitted, measured = quarter == own, quarter == own ^ 1  # the other part of the half
            sets = PredictionSets(method, _COVERAGE).fit(probs[fitted], labels[fitted])
            inside = sets(probs[measured])
            right[measured] = inside.gather(1, labels[measured][:, None])[:, 0].double()
            size += int(inside.sum())
        low, high = share_interval(right, LEVEL, clusters)
        held = float(right.mean())
        found[method] = {"value": held, "low": low, "high": high, "size": size / count}
    return found


def verdicts(metrics: Sequence[str], ours: Predicted, theirs: Predicted) -> list[Facts]:
    """The comparison by each metric; any verdict of a pair is false in at most 5 %.

    Holm 1979: all metrics are tested at .05 divided by their number; those that are decided leave,
    and the others are tested again at .05 divided by how many are left. Each interval has the level
    at which its metric was decided, so it excludes 0 exactly if there is a verdict.
    """
    found: dict[str, Facts] = {}
    left = list(metrics)
    while left:
        level = 1 - (1 - LEVEL) / len(left)
        found |= {metric: compared(metric, ours, theirs, level) for metric in left}
        undecided = [each for each in left if found[each]["verdict"] == "not supported"]
        if undecided == left:
            break
        left = undecided
    return [found[metric] for metric in metrics]


def compared(metric: str, ours: Predicted, theirs: Predicted, level: float) -> Facts:
    """The comparison by one metric, with an interval of this level."""
    design = M.Design(confidence=level, clusters=ours.clusters)
    if metric == "nll":  # from logits, where these are given
        found = M.mean_difference(metric, [ours.log_losses], [theirs.log_losses], design)
    else:
        found = M.difference(metric, [ours.probs], [theirs.probs], ours.labels, design)
    return {
        "metric": metric,
        "ours": ours.name,
        "theirs": theirs.name,
        "value": found.value,
        "low": found.low,
        "high": found.high,
        "level": level,
        "verdict": found.verdict,
    }
