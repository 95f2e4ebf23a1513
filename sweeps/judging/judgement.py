"""Judges existing predictions: metrics, what scaling would achieve, comparisons."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from threadpoolctl import threadpool_limits
from torch import Tensor

from sweeps.errors import UserError
from sweeps.judging.events import MOST_CLASSES, event_found, event_of, share_of
from sweeps.judging.facts import (
    ClassFound,
    Compared,
    Findings,
    GroupFound,
    Judged,
    ScalingFound,
    SetsKind,
)
from sweeps.judging.gaps import clusters_of_rows, gap_of
from sweeps.judging.inputs import Predicted, log_losses_alike
from sweeps.judging.measured import LEVEL, Measured, Metrics, mean_of
from sweeps.judging.sets import judged_sets
from sweeps.judging.soft_labels import judged_by_soft_labels
from trainables import metrics as M
from trainables.metrics._inputs import probabilities
from trainables.metrics.inference.clusters import Clusters, clusters_of
from trainables.metrics.inference.unseen import unseen_log_losses_of_logits
from trainables.posthoc import TemperatureScaling, choose
from trainables.posthoc.chosen import Choice
from trainables.runtime.threads import few_threads

_OF_SCALING = ("nll", "brier", "ece", "error")
COMPARED = ("nll", "brier", "ece", "error")
COMPARED_BY_EVENT = ("nll", "brier", "event_ece", "error")
_TOP_LABEL = (
    *("ece", "adaptive_ece", "mce", "smooth_ece", "kde_ece", "debiased_ece", "accuracy", "error"),
    *("failure_auroc", "aurc", "e_aurc"),
)
_OF_EVENT = ("event_ece", "auroc")  # these are shown first
_OF_GROUPS = ("error", "nll", "ece")
_MIN_IN_GROUP = 20


def judge(
    models: Sequence[Predicted],
    event: str | None = None,
    sets: SetsKind = "all",
    also: Sequence[str] = (),
) -> Findings:
    """Judge the predictions of one model, or of several on the same samples.

    Args:
        models: Their predictions. The others are compared with the first.
        event: The class that is the event, of two; by default the less frequent one.
        sets: Whether prediction sets cover on average over ``all`` samples, or ``per_class``.
        also: Metrics besides the usual ones, of ``trainables.metrics.ON_REQUEST``.

    Raises:
        UserError: Two models have different labels or the same name; there is no such event, or no
            such metric; or it cannot be known of these predictions.
    """
    first, *others = models
    names = [each.name for each in models]
    if twice := {name for name in names if names.count(name) > 1}:
        raise UserError(f"two models are called {twice.pop()!r}; give each its own name")
    for other in others:
        _check_same_samples(first, other)
    top_label_only = any(each.top_label_only for each in models)
    if wrong := [name for name in also if name not in M.ON_REQUEST]:
        raise UserError(f"allowed: {', '.join(M.ON_REQUEST)}", "also", wrong[0])
    if also and (top_label_only or any(each.soft is not None for each in models)):
        raise UserError("needs the probabilities of all classes, and one label per sample", "also")
    index = event_of(first, event)
    compared_by = COMPARED if index is None else COMPARED_BY_EVENT
    metrics = [each for each in compared_by if not top_label_only or each in _TOP_LABEL]
    size = first.probs.numel()
    with few_threads(size) as small, threadpool_limits(1 if small else None, user_api="blas"):
        choices = [_choice(model) for model in models]
        scaled = [_as_scaled(*each) for each in zip(models, choices, strict=True)]
        return Findings(
            [str(model.read) for model in models],
            [
                _judged(model, choice, index, sets, also)
                for model, choice in zip(models, choices, strict=True)
            ],
            [each for other in others for each in verdicts(metrics, other, first)],
            [
                each
                for given, other in zip(others, scaled[1:], strict=True)
                if other is not None and scaled[0] is not None and log_losses_alike(given, first)[1]
                for each in verdicts(metrics, other, scaled[0])
            ],
        )


def _choice(model: Predicted) -> Choice | None:
    """The recommended scaling; None if labels are soft, or only the top label is known."""
    if model.soft is not None or model.top_label_only:
        return None
    return choose(model.logits, model.labels, model.clusters)


def _as_scaled(model: Predicted, choice: Choice | None) -> Predicted | None:
    """The predictions after their recommended scaling, cross-fitted; None without one."""
    if choice is None:
        return None
    if choice.candidate.name == "none":
        return model
    logits = choice.logits[choice.candidate].double()
    return replace(model, logits=logits, probs=logits.softmax(dim=1), floor=None)


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
    one, two = first.clusters, other.clusters
    if one is not two and (one is None or two is None or not torch.equal(one, two)):
        raise UserError(f"{other.name} and {first.name} have different clusters")
    differ = first.labels != other.labels
    if differ.any():
        raise UserError(
            f"{other.name} and {first.name} have different labels in {int(differ.sum())} rows, "
            f"first in row {int(differ.int().argmax())} (from 0); models are compared on the same "
            "samples in the same order"
        )


def _judged(
    model: Predicted,
    choice: Choice | None,
    event: int | None,
    sets: SetsKind,
    also: Sequence[str],
) -> Judged:
    if model.soft is not None:
        return judged_by_soft_labels(model)
    if choice is None:
        return _judged_top_label(model)
    clusters = clusters_of(model.clusters, len(model.labels))
    best, scaling = choice.candidate, _scaled(model, choice, clusters)
    names = M.METRIC_NAMES if event is None else (*_OF_EVENT, *M.METRIC_NAMES)
    metrics = _intervals((*names, *also), model.probs, model.labels, model.clusters)
    return replace(
        _common(
            model, {**metrics, "nll": _nll(model.log_losses, model.logits, clusters)}, clusters
        ),
        scaling=scaling,
        event=None if event is None else event_found(model, event),
        per_class=_per_class(model, with_shares=len(model.classes) <= MOST_CLASSES),
        per_group=_per_group(model, _OF_GROUPS, event),
        sets=judged_sets(best, model, clusters, sets),
    )


def _scaled(model: Predicted, choice: Choice, clusters: Clusters | None) -> ScalingFound:
    """What each method achieves."""
    names = (*_OF_SCALING, *(["event_ece"] if len(model.classes) == 2 else []))
    best, scaler = choice.candidate, TemperatureScaling().fit(model.logits, model.labels)
    methods = {
        str(each.name): {
            **_intervals(names, probabilities(z), model.labels, model.clusters),
            "nll": _nll(choice.losses[each], z, clusters),
            "gap": mean_of(model.log_losses - choice.losses[each], clusters),
        }
        for each, z in choice.logits.items()
        if each.name != "none"
    }
    return ScalingFound(
        methods=methods,
        recommended=best.name,
        nll=float(model.log_losses.mean()),
        refinement=float(choice.losses[best].mean()),
        temperature=scaler.temperature,
        at_bound=scaler.at_bound,
        floor=model.floor,
        at_floor=model.at_floor,
    )


def _nll(losses: Tensor, logits: Tensor, clusters: Clusters | None) -> Measured:
    return mean_of(losses, clusters, unseen_log_losses_of_logits(logits))


def _judged_top_label(model: Predicted) -> Judged:
    """What can be known from the predicted class and its probability: no scaling and no sets."""
    clusters = clusters_of(model.clusters, len(model.labels))
    known = [each for each in _per_class(model) if each.true + each.predicted]
    return replace(
        _common(model, _intervals(_TOP_LABEL, model.probs, model.labels, model.clusters), clusters),
        classes=len(known),
        per_class=known,
        per_group=_per_group(model, ("error", "ece")),
    )


def _common(model: Predicted, metrics: Metrics, clusters: Clusters | None) -> Judged:
    """What is known of every model with one label for each sample."""
    return Judged(
        name=model.name,
        samples=len(model.labels),
        classes=len(model.classes),
        clusters=None if clusters is None else len(clusters),
        metrics=metrics,
        direction=M.direction(model.probs, model.labels, LEVEL, model.clusters),
        bins=M.reliability_bins(model.probs, model.labels),
    )


def _intervals(
    names: Sequence[str], probs: Tensor, labels: Tensor, clusters: Tensor | None
) -> Metrics:
    """Metrics with their intervals, and with the corrected value where noise puts one outside."""
    measured = M.intervals(probs, labels, names, clusters=clusters)
    found = {name: Measured(*each) for name, each in measured.items()}
    if clusters is not None:  # they add more than the correction takes away
        return found
    corrected = {
        name: replace(each, corrected=M.corrected(name, probs, labels))
        for name, each in found.items()
        if name in M.CORRECTED and not each.low <= each.value <= each.high
    }
    return found | corrected


def _per_class(model: Predicted, *, with_shares: bool = False) -> list[ClassFound]:
    confidence, predicted = model.probs.max(dim=1)
    order = predicted.argsort(stable=True)
    counts = predicted.bincount(minlength=len(model.classes)).tolist()
    true = model.labels.bincount(minlength=len(model.classes)).tolist()
    level = 1 - (1 - LEVEL) / max(1, sum(count > 1 for count in counts))
    of_shares = 1 - (1 - LEVEL) / (len(model.classes) if len(model.classes) > 2 else 1)
    units = clusters_of(model.clusters, len(order))
    found = []
    for index, own in enumerate(torch.split(order, counts)):
        right = (model.labels[own] == index).double()
        of_class = model.probs[:, index], model.labels == index
        clusters = clusters_of_rows(model, own)
        known = counts[index] > 1 and (clusters is None or clusters.enough)
        found.append(
            ClassFound(
                model.classes[index],
                true[index],
                counts[index],
                confidence=float(confidence[own].mean()),
                accuracy=float(right.mean()),
                gap=gap_of(confidence[own].double(), right, level, clusters) if known else None,
                share=share_of(*of_class, units, of_shares) if with_shares else None,
            )
        )
    return found


def _per_group(
    model: Predicted, names: Sequence[str], event: int | None = None
) -> list[GroupFound]:
    if model.groups is None:
        return []
    groups, place = np.unique(model.groups, return_inverse=True)
    level = 1 - (1 - LEVEL) / len(groups)
    found = []
    for index, name in enumerate(groups.tolist()):
        own = torch.from_numpy(np.flatnonzero(place == index))
        group, clusters = GroupFound(name, len(own)), clusters_of_rows(model, own)
        if len(own) >= _MIN_IN_GROUP and (clusters is None or clusters.enough):
            probs, labels = model.probs[own], model.labels[own]
            ids = None if model.clusters is None else model.clusters[own]
            confidence, predicted = probs.max(dim=1)
            group = replace(
                group,
                confidence=float(confidence.mean()),
                metrics=_intervals(names, probs, labels, ids),
                gap=gap_of(confidence.double(), (predicted == labels).double(), level, clusters),
                share=None
                if event is None
                else share_of(probs[:, event], labels == event, clusters, level),
            )
        found.append(group)
    return found


def verdicts(metrics: Sequence[str], ours: Predicted, theirs: Predicted) -> list[Compared]:
    """The comparison by each metric; any verdict of a pair is false in at most 5 %.

    Holm 1979: all metrics are tested at .05 divided by their number; those that are decided leave,
    and the others are tested again at .05 divided by how many are left. Each interval has the level
    at which its metric was decided, so it excludes 0 exactly if there is a verdict.
    """
    found: dict[str, Compared] = {}
    left = list(metrics)
    while left:
        level = 1 - (1 - LEVEL) / len(left)
        found |= {metric: compared(metric, ours, theirs, level) for metric in left}
        undecided = [each for each in left if found[each].verdict == "not supported"]
        if undecided == left:
            break
        left = undecided
    return [found[metric] for metric in metrics]


def compared(metric: str, ours: Predicted, theirs: Predicted, level: float) -> Compared:
    """The comparison by one metric, with an interval of this level."""
    design, comparable = M.Design(confidence=level, clusters=ours.clusters), True
    if metric == "nll":  # from logits, where these are given
        losses, comparable = log_losses_alike(ours, theirs)
        found = M.mean_difference(metric, [losses[0]], [losses[1]], design)
    else:
        found = M.difference(metric, [ours.probs], [theirs.probs], ours.labels, design)
    return Compared(
        metric,
        ours.name,
        theirs.name,
        found.value,
        found.low,
        found.high,
        level,
        found.verdict if comparable else "not supported",
        comparable,
    )
