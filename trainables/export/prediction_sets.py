"""The prediction sets of a trained classifier."""

import math
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor

from trainables.metrics.inference.clusters import clusters_of
from trainables.metrics.inference.influence import share_interval
from trainables.posthoc.conformal import SCORES, ClassSets, PredictionSets, SetMethod

COVERAGES: Final = (0.8, 0.9, 0.95, 0.99)
_MOST: Final = 4_000_000  # probabilities of a split; a sort of more takes seconds

Facts = dict[str, Any]
Sets = dict[SetMethod, dict[str, Facts]]
"""By method and coverage, such as ``0.9``."""


class Labelled(NamedTuple):
    """Calibrated logits (N, K), labels (N,), and groups (N,) if samples are not independent."""

    logits: Tensor
    labels: Tensor
    groups: Tensor | None = None

    def spread(self) -> "Labelled":
        """At most 4,000,000 logits, of rows spread evenly."""
        count = min(len(self.logits), max(1, _MOST // self.logits.shape[1]))
        rows = torch.arange(count) * len(self.logits) // count
        groups = None if self.groups is None else self.groups[rows]
        return Labelled(self.logits[rows], self.labels[rows], groups)


def fit_prediction_sets(
    validation: Labelled, test: Labelled, coverages: Sequence[float] = COVERAGES
) -> Sets:
    """The prediction sets of a classifier, by method and coverage.

    Args:
        validation: To fit thresholds, cross-fitted: what calibrates a sample must not have been
            fitted on it.
        test: To measure the sets.
        coverages: How often the sets are to hold the true class, each in (0, 1).

    Returns:
        Method → ``"0.9"`` → ``threshold`` of :class:`~trainables.posthoc.conformal.PredictionSets`
            (of LAC also the ``least_probability`` of a class in the set), and on the test split the
            ``coverage``, its 95 % interval ``low`` and ``high``, and the mean ``size`` of the sets.
            There is no interval with fewer than 10 groups. Also the ``class_thresholds`` of
            :class:`~trainables.posthoc.conformal.ClassSets`, None where a class has too few
            samples; and of both kinds the coverage of each class, ``class_coverage``. Coverages
            that need more validation samples are left out. Of many classes, at most 4,000,000
            probabilities of each split are used, of rows spread evenly.
    """
    validation, test = validation.spread(), test.spread()
    fitted_on, unseen = (each.logits.double().softmax(1) for each in (validation, test))
    found: Sets = {}
    for method in SCORES:
        for coverage in coverages:
            sets = PredictionSets(method, coverage).fit(fitted_on, validation.labels)
            if math.isinf(sets.threshold):
                continue
            facts = {"threshold": sets.threshold, **_measured(sets(unseen), test)}
            of_each = ClassSets(method, coverage).fit(fitted_on, validation.labels)
            facts["class_thresholds"] = [
                each if math.isfinite(each) else None for each in of_each.thresholds
            ]
            facts["class_coverage"] = {
                "all": _of_classes(sets(unseen), test),
                "per_class": _of_classes(of_each(unseen), test),
            }
            if method == "lac":
                facts["least_probability"] = max(0.0, 1 - sets.threshold)
            found.setdefault(method, {})[f"{coverage:g}"] = facts
    return found


def _of_classes(inside: Tensor, test: Labelled) -> list[float | None]:
    """How often the samples of each class are in their sets; None for a class without samples."""
    held = inside.gather(1, test.labels[:, None])[:, 0].double()
    each = (held[test.labels == index] for index in range(inside.shape[1]))
    return [float(own.mean()) if len(own) else None for own in each]


def _measured(inside: Tensor, test: Labelled) -> Facts:
    held = inside.gather(1, test.labels[:, None])[:, 0]
    low, high = share_interval(held, 0.95, clusters_of(test.groups, len(held)))
    ends = {} if math.isnan(low) else {"low": low, "high": high}
    size = float(inside.sum(1).double().mean())
    return {"coverage": float(held.double().mean()), **ends, "size": size}
