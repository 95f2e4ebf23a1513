"""Intervals from influence functions: means, proportions and areas under curves."""

import math

import torch
from scipy.special import ndtri
from torch import Tensor

from trainables.metrics._ranked import mid_ranks
from trainables.metrics.ranking import perfect_ranking_area, risk_coverage_area

Ends = tuple[float, float]

NO_INTERVAL: Ends = (math.nan, math.nan)

_MIN_OF_EACH = 5  # minimum number of correct, and of wrong, predictions for an area


def mean_interval(values: Tensor, level: float) -> Ends:
    """Interval of a mean of values (N,), corrected for their skewness.

    Hall 1992, "On the removal of skewness by transformation": a cubic makes the distribution of the
    studentised mean symmetric, so the upper end is large enough for losses with a long tail.
    """
    count = len(values)
    if count < 2:
        return NO_INTERVAL
    values = values.double()
    mean, deviation = float(values.mean()), float(values.std())
    if deviation == 0:
        return mean, mean
    skewness = float(((values - mean) ** 3).mean()) / deviation**3
    root = math.sqrt(count)

    def studentised(normal: float) -> float:
        if abs(skewness) < 1e-6:
            return normal
        inner = 1 + skewness / root * (normal - skewness / (6 * root))
        cubic = math.copysign(abs(inner) ** (1 / 3), inner) - 1
        return 3 * root / skewness * cubic

    low, high = (
        mean - deviation / root * studentised(z) for z in (_normal(level), -_normal(level))
    )
    return min(low, mean), max(high, mean)


def proportion_interval(share: float, count: int, level: float) -> Ends:
    """Interval of a proportion (Wilson 1927)."""
    z = _normal(level)
    centre = (share + z**2 / (2 * count)) / (1 + z**2 / count)
    half = z / (1 + z**2 / count)
    half *= math.sqrt(share * (1 - share) / count + z**2 / (4 * count**2))
    return max(0.0, centre - half), min(1.0, centre + half)


def auroc_interval(areas: Tensor, influence: Tensor, num_samples: int, level: float) -> Ends:
    """Interval of the macro-averaged one-vs-rest AUROC of `num_samples` rows.

    From the area of each class (K,), nan where undefined, and the contribution of each of R rows to
    the sum of the areas (R,).
    """
    num_defined = int((~areas.isnan()).sum())
    if num_defined == 0 or len(influence) < 2:
        return NO_INTERVAL
    deviation = float(influence.std()) / num_defined / math.sqrt(num_samples)
    return _logit_interval(float(areas.nanmean()), deviation, level)


def failure_auroc_interval(confidence: Tensor, correct: Tensor, level: float) -> Ends:
    """Interval of the AUROC of confidence for correct predictions, on the logit scale.

    DeLong et al. 1988. Both ends are nan if fewer than five predictions are correct, or wrong.
    """
    right, wrong = confidence[correct].sort().values, confidence[~correct].sort().values
    if min(len(right), len(wrong)) < _MIN_OF_EACH:
        return NO_INTERVAL
    wins = mid_ranks(wrong, right) / len(wrong)
    losses = 1 - mid_ranks(right, wrong) / len(right)
    variance = float(wins.var()) / len(right) + float(losses.var()) / len(wrong)
    return _logit_interval(float(wins.mean()), math.sqrt(variance), level)


def aurc_interval(confidence: Tensor, correct: Tensor, level: float, excess: bool) -> Ends:
    """Interval of the AURC, or of its excess over a perfect ranking, on the log scale.

    A wrong prediction contributes -log(coverage at its confidence), and each sample affects the
    coverage of less confident ones. Both ends are nan if fewer than five predictions are correct,
    or wrong.
    """
    count = len(confidence)
    wrong = (~correct).double()
    num_wrong = int(wrong.sum())
    if min(num_wrong, count - num_wrong) < _MIN_OF_EACH:
        return NO_INTERVAL
    scores, order = confidence.sort(descending=True)
    wrong = wrong[order]
    coverage = torch.arange(1, count + 1).to(wrong) / count
    # Ties share their errors and their positions evenly, as in the metric.
    errors_less_sure = (_tie_means(scores, wrong) / coverage).flip(0).cumsum(0).flip(0) / count
    influence = -wrong * _tie_means(scores, coverage.log()) - _tie_means(scores, errors_less_sure)
    value = risk_coverage_area(confidence, correct)
    if excess:
        error = num_wrong / count
        influence += wrong * math.log1p(-error)
        value = value - perfect_ranking_area(correct)
    deviation = float(influence.std()) / math.sqrt(count)
    if float(value) <= 0:
        return NO_INTERVAL
    half = _normal(level) * deviation / float(value)
    return float(value) * math.exp(-half), min(1.0, float(value) * math.exp(half))


def _tie_means(ordered: Tensor, values: Tensor) -> Tensor:
    """The mean of values (N,) over samples of equal score, given scores in order (N,)."""
    _, tie, size = torch.unique_consecutive(ordered, return_inverse=True, return_counts=True)
    means: Tensor = torch.bincount(tie, values) / size
    return means[tie]


def _logit_interval(value: float, deviation: float, level: float) -> Ends:
    if not 0 < value < 1:
        return NO_INTERVAL
    centre = math.log(value / (1 - value))
    half = _normal(level) * deviation / (value * (1 - value))
    return 1 / (1 + math.exp(half - centre)), 1 / (1 + math.exp(-half - centre))


def _normal(level: float) -> float:
    """Two-sided normal quantile: the probability above it is (1 - level) / 2."""
    return float(ndtri((1 + level) / 2))
