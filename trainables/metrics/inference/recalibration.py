"""Calibration intercept and slope of the probability of an event, by logistic regression."""

import math

import numpy as np
import torch
from scipy.special import expit, ndtri
from torch import Tensor

from trainables.metrics.inference.clusters import Array, Clusters
from trainables.metrics.inference.influence import half_width

Measured = tuple[float, float, float]

UNKNOWN: Measured = (math.nan, math.nan, math.nan)
_FEWEST = 5  # of events, and of other samples, for an interval
_MOST_STEPS = 100
_FARTHEST = 3.0  # of a Newton step, in logits
_CLOSE = 1e-10


def calibration_intercept(
    scores: Tensor, event: Tensor, level: float = 0.95, clusters: Clusters | None = None
) -> Measured:
    """Calibration in the large: a of logit P(event) = a + score, with its interval.

    Above 0, the probabilities are too low on average. Cox 1958; Steyerberg 2019, "Clinical
    Prediction Models", chapter 15.

    Args:
        scores: The logit of the predicted probability, (N,).
        event: Whether the event happened, (N,).
        level: Level of the interval.
        clusters: See `interval`.

    Returns:
        The value, nan if the event never or always happens, and both ends, which are nan with fewer
            than five events, or other samples.
    """
    z, y = _arrays(scores, event)
    if not 0 < y.mean() < 1:
        return UNKNOWN
    return _estimate(np.ones((len(z), 1)), z, y, level, clusters)


def calibration_slope(
    scores: Tensor, event: Tensor, level: float = 0.95, clusters: Clusters | None = None
) -> Measured:
    """Calibration slope: b of logit P(event) = a + b · score, with its interval.

    Below 1, the probabilities are too extreme. It is nan where the scores separate events from
    other samples, or are all equal. Arguments and ends as in :func:`calibration_intercept`.
    """
    z, y = _arrays(scores, event)
    yes, no = z[y == 1], z[y == 0]
    if not (len(yes) and len(no)) or no.max() <= yes.min() or yes.max() <= no.min():
        return UNKNOWN
    centred = z - z.mean()  # the slope is the same, and the problem well conditioned
    return _estimate(np.stack([centred, np.ones_like(z)], axis=1), 0 * z, y, level, clusters)


def _arrays(scores: Tensor, event: Tensor) -> tuple[Array, Array]:
    return scores.double().cpu().numpy(), event.double().cpu().numpy()


def _estimate(
    columns: Array, offset: Array, y: Array, level: float, clusters: Clusters | None
) -> Measured:
    """The first coefficient (of columns (N, C)) that maximises the likelihood, and Wald's ends.

    The variance is the larger of the likelihood's and the one that also holds if the relation is
    not logistic, or samples are of clusters (White 1980; Liang and Zeger 1986).
    """
    beta = np.zeros(columns.shape[1])
    for _ in range(_MOST_STEPS):
        p = expit(columns @ beta + offset)
        covariance = np.linalg.pinv((columns.T * (p * (1 - p))) @ columns)
        step = covariance @ (columns.T @ (y - p))
        beta += step * min(1.0, _FARTHEST / max(float(np.abs(step).max()), _FARTHEST))
        if np.abs(step).max() < _CLOSE:
            break
    value = float(beta[0])
    if min(y.sum(), (1 - y).sum()) < _FEWEST or (clusters is not None and not clusters.enough):
        return value, math.nan, math.nan
    influence = len(y) * (y - p) * (columns @ covariance[0])
    half = half_width(torch.from_numpy(influence), len(y), level, clusters)
    half = max(half, float(ndtri((1 + level) / 2)) * math.sqrt(covariance[0, 0]))
    return value, value - half, value + half
