"""Intervals from influence functions: means, proportions and areas under curves."""

import math

import numpy as np
import torch
from scipy.special import betaincinv, ndtr, ndtri, stdtrit
from torch import Tensor

from trainables.metrics._ranked import mid_ranks, tie_means
from trainables.metrics.inference.clusters import Clusters
from trainables.metrics.inference.dirichlet import weighted_mean_quantile
from trainables.metrics.separation import perfect_ranking_area, risk_coverage_area

Ends = tuple[float, float]

NO_INTERVAL: Ends = (math.nan, math.nan)


def mean_interval(
    values: Tensor,
    level: float,
    clusters: Clusters | None = None,
    unseen: Ends | None = None,
) -> Ends:
    """Interval of a mean of values (N,) that allows for values that were not seen.

    The ends are quantiles of the weighted mean (see :mod:`dirichlet`) of the values and one more:
    the lower `unseen` value for the lower end, the upper one for the upper end. `unseen` are what a
    row may be expected to have if it is unlike those that were seen, such as the loss of a wrong
    prediction; None for the smallest and largest value. Clusters take the place of rows, and
    Student's t widens the interval.
    """
    rows = values.double().cpu().numpy()
    if clusters is None:
        seen, freedom, weight = rows, math.inf, 1.0
    elif clusters.enough:
        seen, freedom = clusters.pseudo_values(rows), clusters.freedom(rows)
        weight = min(1.0, len(clusters) / clusters.worth(rows))
    else:
        return NO_INTERVAL
    if len(seen) < 2:
        return NO_INTERVAL
    mean = float(seen.mean())
    further = (float(seen.min()), float(seen.max()))
    if unseen is not None:
        further = (mean + weight * (unseen[0] - mean), mean + weight * (unseen[1] - mean))
    share = float(ndtr(_quantile(level, freedom)))
    low = weighted_mean_quantile(np.append(seen, min(mean, further[0])), 1 - share)
    high = weighted_mean_quantile(np.append(seen, max(mean, further[1])), share)
    return min(low, mean), max(high, mean)


def share_interval(right: Tensor, level: float, clusters: Clusters | None = None) -> Ends:
    """Interval of the share of ones in the whole population, from ones and zeros (N,): exact.

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
    """Interval of a proportion (Clopper and Pearson 1934); `count` may be a fraction."""
    ones, zeros, tail = share * count, (1 - share) * count, (1 - level) / 2
    low = float(betaincinv(ones, zeros + 1, tail)) if ones > 0 else 0.0
    high = float(betaincinv(ones + 1, zeros, 1 - tail)) if zeros > 0 else 1.0
    return low, high


def auroc_interval(
    areas: Tensor, counts: Tensor, influence: Tensor, level: float, clusters: Clusters | None
) -> Ends:
    """Interval of the macro-averaged one-vs-rest AUROC.

    From the area of each class (K,), nan where undefined, the number of rows of each class (K,),
    and the contribution of each of R rows to the sum of the areas (R,); with clusters, of all rows.
    A row that was not seen may be ranked two thirds of the way to the worst place, or at the best.
    """
    num_samples = int(counts.sum())
    shares = counts / num_samples
    defined = ~areas.isnan()
    if not defined.any() or len(influence) < 2:
        return NO_INTERVAL
    areas, shares = areas[defined].cpu().double(), shares[defined].cpu().double()

    def of_a_row(change: Tensor) -> Tensor:  # in each class, for a row of each class
        as_other = change / (1 - shares)
        return change / shares + as_other.sum() - as_other

    unseen = float(of_a_row(-areas * 2 / 3).min()), float(of_a_row(1 - areas).max())
    low, high = interval_around(influence, num_samples, level, clusters, unseen)
    value, count = float(areas.mean()), len(areas)
    return max(0.0, value + low / count), min(1.0, value + high / count)


def failure_auroc_interval(
    confidence: Tensor, correct: Tensor, level: float, clusters: Clusters | None = None
) -> Ends:
    """Interval of the AUROC of confidence for correct predictions.

    Its contributions are those of DeLong et al. 1988. Both ends are nan if all predictions are
    correct, or all are wrong.
    """
    right, wrong = confidence[correct].sort().values, confidence[~correct].sort().values
    if min(len(right), len(wrong)) == 0:
        return NO_INTERVAL
    influence = torch.empty(len(confidence), dtype=torch.float64, device=confidence.device)
    influence[correct] = mid_ranks(wrong, confidence[correct]) / len(wrong)
    area = influence[correct].mean()
    influence[~correct] = 1 - mid_ranks(right, confidence[~correct]) / len(right)
    share = torch.where(correct, len(right), len(wrong)) / len(correct)
    counts = torch.tensor([len(right), len(wrong)])
    # The rest has the same area, as has the other class in the AUROC of two classes.
    return auroc_interval(area.repeat(2), counts, 2 * (influence - area) / share, level, clusters)


def aurc_interval(
    confidence: Tensor,
    correct: Tensor,
    level: float,
    clusters: Clusters | None = None,
    *,
    excess: bool,
) -> Ends:
    """Interval of the AURC, or of its excess over a perfect ranking.

    A wrong prediction contributes -log(coverage at its confidence), and each sample affects the
    coverage of less confident ones. One that was not seen may be as harmful as a wrong prediction
    among the twentieth that is most confident.
    """
    count = len(confidence)
    wrong = (~correct).double()
    scores, order = confidence.sort(descending=True)
    wrong = wrong[order]
    coverage = torch.arange(1, count + 1).to(wrong) / count
    # Ties share their errors and their positions evenly, as in the metric.
    errors_less_sure = (tie_means(scores, wrong) / coverage).flip(0).cumsum(0).flip(0) / count
    if_right, if_wrong = -tie_means(scores, errors_less_sure), -tie_means(scores, coverage.log())
    value = risk_coverage_area(confidence, correct)
    if excess:
        error = float(wrong.mean())
        if_wrong += math.log1p(-min(error, 1 - 1 / (2 * count)))
        value = value - perfect_ranking_area(correct)
    influence = if_right + wrong * if_wrong
    centre = float(influence.mean())
    harm = float((if_right + if_wrong)[count // 20])
    unseen = float(influence.min()) - centre, harm - centre
    influence = influence[order.argsort()] - centre  # in the order of the rows
    low, high = interval_around(influence, count, level, clusters, unseen)
    return max(0.0, float(value) + low), min(1.0, float(value) + high)


def interval_around(
    influence: Tensor, num_samples: int, level: float, clusters: Clusters | None, unseen: Ends
) -> Ends:
    """Both ends of the interval of a mean over `num_samples` rows, less the mean.

    From the contribution of each of R rows (R,), and of rows that were not seen, see
    :func:`mean_interval`.
    """
    low, high = mean_interval(influence, level, clusters, unseen)
    mean, scale = float(influence.double().mean()), math.sqrt(len(influence) / num_samples)
    return scale * (low - mean), scale * (high - mean)


def half_width(
    influence: Tensor, num_samples: int, level: float, clusters: Clusters | None
) -> float:
    """Half the width of the normal interval of a mean over `num_samples` rows.

    From the contribution of each of R rows (R,); with clusters, of all rows.
    """
    if clusters is None:
        return _quantile(level) * float(influence.std()) / math.sqrt(num_samples)
    rows = influence.double().cpu().numpy()
    error = float(clusters.pseudo_values(rows).std(ddof=1)) / math.sqrt(len(clusters))
    return _quantile(level, clusters.freedom(rows)) * error


def _quantile(level: float, freedom: float = math.inf) -> float:
    """Two-sided quantile of a normal variable, or of Student's t: (1 - level) / 2 lie above it."""
    share = (1 + level) / 2
    return float(ndtri(share) if math.isinf(freedom) else stdtrit(freedom, share))
