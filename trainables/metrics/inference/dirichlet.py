"""Quantiles of a mean of values with random weights, which make intervals of means.

Gaffke 2005, "Three test statistics for a nonparametric one-sided hypothesis on the mean of a
nonnegative variable"; Learned-Miller and Thomas 2020, "A new confidence interval for the mean of a
bounded random variable", arXiv:1905.06208. With one further value, the largest possible one, the
upper quantile of the weighted mean is an upper confidence limit. For ones and zeros it is that of
Clopper and Pearson. The weights are Dirichlet's: independent exponential variables over their sum.
"""

import math
from functools import partial

import numpy as np
from scipy.special import ndtri

from trainables.metrics.inference.clusters import Array

_CLOSE_TO_MEAN = 1e-3
_FARTHEST = 60.0  # log odds of the tilt
_LARGEST_TAIL = 1e-12


def weighted_mean_quantile(values: Array, share: float) -> float:
    """The quantile, at `share`, of the mean of values (N,) with Dirichlet's weights.

    By the saddlepoint approximation (Lugannani and Rice 1980; Barndorff-Nielsen's form): the mean
    is below t with the probability that Σ e (x - t) is below 0, for exponential variables e. The
    relative error of a tail is 5 % for two values, and below 1 % for 50. The middle is the mean.
    """
    from scipy.optimize import brentq  # slow to import

    low, high = float(values.min()), float(values.max())
    if high - low <= _LARGEST_TAIL * max(abs(low), abs(high)):
        return low
    place = (values - low) / (high - low)
    normal = float(ndtri(min(max(share, _LARGEST_TAIL), 1 - _LARGEST_TAIL)))
    if abs(normal) < _CLOSE_TO_MEAN:
        return float(values.mean())
    tilted = partial(_tilted, place)
    end = normal / (math.sqrt(len(place)) * float(place.std()))
    while abs(end) < _FARTHEST and (tilted(end)[1] - normal) * normal < 0:
        end *= 2
    if abs(end) >= _FARTHEST:
        return high if normal > 0 else low
    tilt = brentq(lambda each: tilted(each)[1] - normal, 0.0, end, rtol=1e-6)
    return low + (high - low) * tilted(tilt)[0]


def _tilted(values: Array, tilt: float) -> tuple[float, float]:
    """The mean t of values in [0, 1] at a tilt of the weights, and the normal deviate of t.

    The tilt is the log odds of the weights at 1 and at 0.
    """
    odds = 1 / (1 + math.exp(-tilt))
    scale = odds + (1 - 2 * odds) * values
    weights = 1 / scale
    mean = float(weights @ values / weights.sum())
    own = odds + (1 - 2 * odds) * mean
    root = math.copysign(math.sqrt(max(2 * float(np.log(scale / own).sum()), 0.0)), tilt)
    if abs(root) < _CLOSE_TO_MEAN:
        return mean, root
    slope = (2 * odds - 1) * float(np.linalg.norm((values - mean) * weights))
    return mean, root + math.log(slope / root) / root
