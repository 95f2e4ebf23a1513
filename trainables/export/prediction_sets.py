"""The prediction sets of an exported classifier."""

from __future__ import annotations

import math
from typing import Final

import torch
from torch import Tensor

from trainables.metrics._influence import proportion_interval
from trainables.posthoc.conformal import PredictionSets
from trainables.posthoc.crossfit import cross_fitted

COVERAGES: Final = (0.8, 0.9, 0.95, 0.99)
_LEVEL: Final = 0.95


def fit_prediction_sets(
    validation: tuple[Tensor, Tensor], test: tuple[Tensor, Tensor], temperature: float
) -> dict[str, dict[str, float]]:
    """The smallest probability of a class in the prediction set, by coverage.

    These are the ``lac`` sets of :class:`~trainables.posthoc.conformal.PredictionSets`, fitted on
    cross-fitted validation probabilities.

    Args:
        validation: Logits (N, K) and labels (N,) of the validation split.
        test: Logits and labels of the test split, on which the sets are evaluated.
        temperature: Temperature of the classifier.

    Returns:
        By coverage, such as ``"0.9"``: ``least_probability`` of a class in the set; and on the test
        split, the ``coverage``, its 95 % interval ``low`` and ``high``, and the mean ``size`` of
        the sets. Coverages that need more validation samples are left out.
    """
    logits, labels = validation
    probs = cross_fitted(logits.double(), labels).softmax(1)
    unseen = (test[0].double() / temperature).softmax(1)
    found = {}
    for coverage in COVERAGES:
        sets = PredictionSets("lac", coverage).fit(probs, labels)
        if math.isinf(sets.threshold):
            continue
        inside = sets(unseen)
        held = float(inside.gather(1, test[1][:, None]).double().mean())
        low, high = proportion_interval(held, len(unseen), _LEVEL)
        found[f"{coverage:g}"] = {
            "least_probability": max(0.0, 1 - sets.threshold),
            "coverage": held,
            "low": low,
            "high": high,
            "size": float(inside.sum(1).double().mean()),
        }
    return found


def prediction_sets(probs: Tensor, least_probability: float) -> Tensor:
    """Membership of each class in the set of each sample, bool (N, K), for probabilities (N, K)."""
    inside = probs >= least_probability
    return inside.scatter_(1, probs.argmax(dim=1, keepdim=True), torch.ones_like(inside))
