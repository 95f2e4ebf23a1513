"""Intervals from influence functions: means, proportions and areas under curves."""

import math

import torch
from scipy.special import ndtri, stdtrit
from torch import Tensor

from trainables.metrics._ranked import mid_ranks, tie_means
from trainables.metrics.inference.clusters import Clusters
from trainables.metrics.ranking import perfect_ranking_area, risk_coverage_area

Ends = tuple[float, float]

NO_INTERVAL: Ends = (math.nan, math.nan)

_MIN_OF_EACH = 5  # minimum number of correct, and of wrong, predictions for an area


def mean_interval(values: Tensor, level: float, clusters: Clusters | None = None) -> Ends:
    """Interval of a mean of values (N,), corrected for their skewness.

    Hall 1992, "On the removal of skewness by transformation": a cubic makes the distribution of the
    studentised mean symmetric, so the upper end is large enough for losses with a long tail.
    """
    values, freedom = values.double(), math.inf
    if clusters is not None and not clusters.enough:
        return NO_INTERVAL
    if clusters is not None:
        rows = values.cpu().numpy()
        values, freedom = torch.from_numpy(clusters.pseudo_values(rows)), clusters.freedom(rows)
    count = len(values)
    if count < 2:
        return NO_INTERVAL
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

    quantile = _quantile(level, freedom)
    low, high = (mean - deviation / root * studentised(q) for q in (quantile, -quantile))
    return min(low, mean), max(high, mean)


def share_interval(right: Tensor, level: float, clusters: Clusters | None = None) -> Ends:
    """Interval of the share of ones in the whole population, from ones and zeros (N,): Wilson's.

    With clusters, for the number of independent rows that would have the same noise, made smaller
    as Student's t is wider than the normal distribution (Korn and Graubard 1998, "Confidence
    intervals for proportions with small expected number of positive counts estimated from survey
    data"). Both ends are nan with fewer than 10 clusters.
    """
    right = right.double()
    if clusters is None:
        return proportion_interval(float(right.mean()), len(right), level)
    if not clusters.enough:
        return NO_INTERVAL
    rows = right.cpu().numpy()
    narrower = _quantile(level) / _quantile(level, clusters.freedom(rows))
    return proportion_interval(float(rows.mean()), clusters.worth(rows) * narrower**2, level)


def proportion_interval(share: float, count: float, level: float) -> Ends:
    """Interval of a proportion (Wilson 1927)."""
    z = _quantile(level)
    centre = (share + z**2 / (2 * count)) / (1 + z**2 / count)
    half = z / (1 + z**2 / count)
    half *= math.sqrt(share * (1 - share) / count + z**2 / (4 * count**2))
    return max(0.0, centre - half), min(1.0, centre + half)


def auroc_interval(
    areas: Tensor, influence: Tensor, num_samples: int, level: float, clusters: Clusters | None
) -> Ends:
    """Interval of the macro-averaged one-vs-rest AUROC of `num_samples` rows.

    From the area of each class (K,), nan where undefined, and the contribution of each of R rows to
    the sum of the areas (R,); with clusters, of all rows.
    """
    num_defined = int((~areas.isnan()).sum())
    if num_defined == 0 or len(influence) < 2:
        return NO_INTERVAL
    half = half_width(influence, num_samples, level, clusters) / num_defined
    return _logit_interval(float(areas.nanmean()), half)


def failure_auroc_interval(
    confidence: Tensor, correct: Tensor, level: float, clusters: Clusters | None = None
) -> Ends:
    """Interval of the AUROC of confidence for correct predictions, on the logit scale.

    DeLong et al. 1988. Both ends are nan if fewer than five predictions are correct, or wrong.
    """
    right, wrong = confidence[correct].sort().values, confidence[~correct].sort().values
    if min(len(right), len(wrong)) < _MIN_OF_EACH:
        return NO_INTERVAL
    influence = torch.empty(len(confidence), dtype=torch.float64, device=confidence.device)
    influence[correct] = mid_ranks(wrong, confidence[correct]) / len(wrong)
    area = float(influence[correct].mean())
    influence[~correct] = 1 - mid_ranks(right, confidence[~correct]) / len(right)
    count = len(confidence)
    influence = (influence - area) * math.sqrt(count * (count - 1))
    influence[correct] /= math.sqrt(len(right) * (len(right) - 1))
    influence[~correct] /= math.sqrt(len(wrong) * (len(wrong) - 1))
    return _logit_interval(area, half_width(influence, count, level, clusters))


def aurc_interval(
    confidence: Tensor,
    correct: Tensor,
    level: float,
    clusters: Clusters | None = None,
    *,
    excess: bool,
) -> Ends:
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
    errors_less_sure = (tie_means(scores, wrong) / coverage).flip(0).cumsum(0).flip(0) / count
    influence = -wrong * tie_means(scores, coverage.log()) - tie_means(scores, errors_less_sure)
    value = risk_coverage_area(confidence, correct)
    if excess:
        error = num_wrong / count
        influence += wrong * math.log1p(-error)
        value = value - perfect_ranking_area(correct)
    if float(value) <= 0:
        return NO_INTERVAL
    influence = influence[order.argsort()]  # in the order of the rows
    half = half_width(influence, count, level, clusters) / float(value)
    return float(value) * math.exp(-half), min(1.0, float(value) * math.exp(half))


def half_width(
    influence: Tensor, num_samples: int, level: float, clusters: Clusters | None
) -> float:
    """Half the width of the interval of a mean over `num_samples` rows.

    From the contribution of each of R rows (R,); with clusters, of all rows.
    """
    if clusters is None:
        return _quantile(level) * float(influence.std()) / math.sqrt(num_samples)
    rows = influence.double().cpu().numpy()
    error = float(clusters.pseudo_values(rows).std(ddof=1)) / math.sqrt(len(clusters))
    return _quantile(level, clusters.freedom(rows)) * error


def _logit_interval(value: float, half: float) -> Ends:
    """From half the width of the interval on the scale of `value`."""
    if not 0 < value < 1:
        return NO_INTERVAL
    centre = math.log(value / (1 - value))
    half = half / (value * (1 - value))
    return 1 / (1 + math.exp(half - centre)), 1 / (1 + math.exp(-half - centre))


def _quantile(level: float, freedom: float = math.inf) -> float:
    """Two-sided quantile of a normal variable, or of Student's t: (1 - level) / 2 lie above it."""
    share = (1 + level) / 2
    return float(ndtri(share) if math.isinf(freedom) else stdtrit(freedom, share))
