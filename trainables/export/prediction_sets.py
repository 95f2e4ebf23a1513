"""The prediction sets of a trained classifier."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import torch
from torch import Tensor

from trainables.metrics.inference.influence import proportion_interval
from trainables.posthoc.conformal import SCORES, PredictionSets, SetMethod

COVERAGES: Final = (0.8, 0.9, 0.95, 0.99)
_LEVEL: Final = 0.95
_MOST: Final = 4_000_000  # probabilities of a split; a sort of more takes seconds

Facts = dict[str, float]
Sets = dict[SetMethod, dict[str, Facts]]
"""By method and coverage, such as ``0.9``."""


def fit_prediction_sets(
    validation: tuple[Tensor, Tensor],
    test: tuple[Tensor, Tensor],
    coverages: Sequence[float] = COVERAGES,
) -> Sets:
    """The prediction sets of a classifier, by method and coverage.

    Args:
        validation: Calibrated logits (N, K) and labels (N,), cross-fitted: what calibrates a sample
            must not have been fitted on it.
        test: Calibrated logits and labels; the sets are measured on them.
        coverages: How often the sets are to hold the true class, each in (0, 1).

    Returns:
        Method → ``"0.9"`` → ``threshold`` of :class:`~trainables.posthoc.conformal.PredictionSets`
            (of LAC also the ``least_probability`` of a class in the set), and on the test split the
            ``coverage``, its 95 % interval ``low`` and ``high``, and the mean ``size`` of the sets.
            Coverages that need more validation samples are left out. Of many classes, at most
            4,000,000 probabilities of each split are used, of rows spread evenly.
    """
    (fitted_on, labels), (unseen, truth) = (_probabilities(*each) for each in (validation, test))
    found: Sets = {}
    for method in SCORES:
        for coverage in coverages:
            sets = PredictionSets(method, coverage).fit(fitted_on, labels)
            if math.isinf(sets.threshold):
                continue
            facts = {"threshold": sets.threshold, **_measured(sets(unseen), truth)}
            if method == "lac":
                facts["least_probability"] = max(0.0, 1 - sets.threshold)
            found.setdefault(method, {})[f"{coverage:g}"] = facts
    return found


def _probabilities(logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    count = min(len(logits), max(1, _MOST // logits.shape[1]))
    rows = torch.arange(count) * len(logits) // count
    return logits[rows].double().softmax(1), labels[rows]


def _measured(inside: Tensor, labels: Tensor) -> Facts:
    held = float(inside.gather(1, labels[:, None]).double().mean())
    low, high = proportion_interval(held, len(labels), _LEVEL)
    return {
        "coverage": held,
        "low": low,
        "high": high,
        "size": float(inside.sum(1).double().mean()),
    }
