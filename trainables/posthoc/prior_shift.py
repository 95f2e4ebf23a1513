"""Shifts of the prior: other frequencies of the classes, but the same samples within each class.

Saerens, Latinne and Decaestecker 2002, "Adjusting the outputs of a classifier to new a priori
probabilities: a simple procedure".
"""

import math

import torch
from scipy.special import expit, logit, ndtri
from torch import Tensor

_MOST_STEPS = 2000
_CLOSE = 1e-10
_STEP = 1e-3  # of the logit of a prior, for a derivative


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
    probs: Tensor, prior: float, samples: int, level: float = 0.95
) -> tuple[float, float, float]:
    """The estimated frequency of an event, of two classes, with its interval.

    Args:
        probs: Probabilities (N,) of the event of new samples.
        prior: Its frequency where the probabilities are calibrated.
        samples: Number of samples that this frequency is known from; its noise counts, too.
        level: Level of the interval, which is normal on the logit scale.
    """
    p = probs.double()

    def estimate(old: float) -> float:
        both = estimated_priors(torch.stack([1 - p, p], dim=1), torch.tensor([1 - old, old]))
        return float(both[1])

    value = estimate(prior)
    if not 0 < value < 1:
        return value, math.nan, math.nan
    slope = p / prior - (1 - p) / (1 - prior)
    scores = slope / (value * p / prior + (1 - value) * (1 - p) / (1 - prior))
    information = float((scores**2).sum())
    own = 1 / math.sqrt(information) / (value * (1 - value)) if information > 0 else math.inf
    moved = estimate(float(expit(logit(prior) + _STEP)))
    through = (logit(moved) - logit(value)) / _STEP if 0 < moved < 1 else 1.0
    old = through / math.sqrt(samples * prior * (1 - prior))
    half = float(ndtri((1 + level) / 2)) * math.hypot(own, old)
    return value, float(expit(logit(value) - half)), float(expit(logit(value) + half))
