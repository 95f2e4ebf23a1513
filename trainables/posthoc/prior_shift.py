"""Shifts of the prior: other frequencies of the classes, but the same samples within each class.

Saerens, Latinne and Decaestecker 2002, "Adjusting the outputs of a classifier to new a priori
probabilities: a simple procedure".
"""

import math

import torch
from scipy.special import expit, logit, ndtri
from torch import Tensor

from trainables.metrics.inference.clusters import Clusters

_MOST_STEPS = 2000
_CLOSE = 1e-10
_TINY = 1e-9  # of a prior


def estimated_priors(probs: Tensor, priors: Tensor) -> Tensor:
    """The frequencies (K,) of the classes among new samples, by the EM algorithm.

    From their probabilities (N, K), calibrated where the frequencies were `priors` (K,). Labels
    are not needed.
    """
    ratios, new = probs.double() / priors.double(), priors.double()
    for _ in range(_MOST_STEPS):
        joint = ratios * new
        last, new = new, (joint / joint.sum(dim=1, keepdim=True)).mean(dim=0)
        if float((new - last).abs().max()) < _CLOSE:
            break
    return new


def with_priors(probs: Tensor, old: Tensor, new: Tensor) -> Tensor:
    """Probabilities (N, K) where the classes have the frequencies `new` instead of `old`, (K,)."""
    joint = probs.double() * (new / old)
    return joint / joint.sum(dim=1, keepdim=True)


def prior_interval(
    probs: Tensor,
    known: tuple[float, float, float],
    level: float = 0.95,
    clusters: Clusters | None = None,
) -> tuple[float, float, float]:
    """The estimated frequency of an event, of two classes, with its interval.

    Noise of the new samples is normal on the logit scale; that of the earlier frequency is what
    its ends make of the estimate, and both are added as in Zou and Donner 2008.

    Args:
        probs: Probabilities (N,) of the event of new samples.
        known: Its frequency where the probabilities are calibrated, and the ends of its interval.
        level: Level of the interval.
        clusters: Of the new samples, if they are not independent.
    """
    p = probs.double()

    def estimate(old: float) -> float:
        both = estimated_priors(torch.stack([1 - p, p], dim=1), torch.tensor([1 - old, old]))
        return float(both[1])

    prior, *ends = (min(max(each, _TINY), 1 - _TINY) for each in known)
    value, *moved = estimate(prior), *sorted(map(estimate, ends))
    if not 0 < value < 1:
        return value, math.nan, math.nan
    slope = p / prior - (1 - p) / (1 - prior)
    scores = (slope / (value * p / prior + (1 - value) * (1 - p) / (1 - prior))).cpu().numpy()
    sums = scores if clusters is None else clusters.sums(scores)
    noise = math.sqrt(float((sums**2).sum())) / float((scores**2).sum())
    own = float(ndtri((1 + level) / 2)) * noise / (value * (1 - value))
    low, high = (
        float(expit(logit(value) + sign * math.hypot(own, logit(each) - logit(value))))
        for sign, each in zip((-1, 1), moved, strict=True)
    )
    return value, low, high
