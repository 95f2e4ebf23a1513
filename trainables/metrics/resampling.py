"""Bootstrap intervals of metrics."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor

from trainables.metrics._inputs import check_clusters, check_count, check_level, check_probs
from trainables.metrics._ranked import rank_top_label, upper_edges
from trainables.metrics._top_label import confidence_scores, top_label
from trainables.metrics.calibration import (
    adaptive_calibration_error,
    binned_error,
    expected_calibration_error,
    maximum_calibration_error,
    maximum_gap,
)
from trainables.metrics.debiased import (
    debiased_calibration_error,
    debiased_error,
    sweep_calibration_error,
    sweep_error,
)
from trainables.metrics.proper_scores import (
    accuracy,
    brier_score,
    error_rate,
    log_losses,
    negative_log_likelihood,
    root_brier_score,
    squared_errors,
)
from trainables.metrics.ranking import (
    aurc,
    e_aurc,
    failure_auroc,
    perfect_ranking_area,
    risk_coverage_area,
)
from trainables.metrics.smooth import smooth_calibration_error, smooth_error

MetricFunction = Callable[[Tensor, Tensor], float]

_BLOCK_ELEMENTS = 2**21


def bootstrap(
    metric: MetricFunction,
    probs: Tensor,
    labels: Tensor,
    num_resamples: int = 1000,
    confidence: float = 0.95,
    seed: int = 0,
    cluster_size: int = 1,
) -> tuple[float, float, float]:
    """Value of a metric, with both ends of a percentile bootstrap interval over samples.

    Samples are drawn with replacement. Resamples on which the metric is undefined (nan) are left
    out. A calibration error is biased upwards, and more so on resamples. If the percentiles exclude
    the value itself, the interval is widened to include it.

    ECE, NLL, Brier, root Brier, accuracy and error rate are functions of means over samples and are
    computed for all resamples at once. For other top-label metrics, a resample draws confidences
    and correctness only. Both shortcuts also apply to keywords bound by `functools.partial`. Any
    other metric is called with the probabilities of each resample.

    Args:
        metric: A function of probabilities and labels that returns a number.
        probs: Probabilities, shape (N, K), rows sum to one.
        labels: True classes, shape (N,), integers.
        num_resamples: Number of resamples, at least 1.
        confidence: Level of the interval, in (0, 1).
        seed: Seed of the resamples; the same seed draws the same resamples for every metric.
        cluster_size: Number of consecutive rows per sample, such as the pixels of an image; they
            are drawn together.
    """
    probs, labels = check_probs(probs, labels)
    check_count("num_resamples", num_resamples)
    check_level(confidence)
    check_clusters(labels, cluster_size)
    value = float(metric(probs, labels))
    draws = _draw(len(labels) // cluster_size, num_resamples, seed)
    means = _sample_means(metric, probs, labels)
    if means is None:
        value_of, *parts = _smallest_parts(metric, probs, labels)
        parts = [t.reshape(-1, cluster_size, *t.shape[1:]) for t in parts]
        values = [
            float(value_of(*(t[i].flatten(0, 1) for t in parts)))
            for i in _rows(draws, probs.device)
        ]
        resampled = torch.tensor(values, dtype=torch.float64)
    else:
        terms, finish = means
        terms = terms.reshape(-1, cluster_size, terms.shape[1]).mean(dim=1)
        resampled = torch.cat([finish(_resampled_means(terms, drawn)) for drawn in draws]).cpu()
    tail = (1 - confidence) / 2
    ends = torch.tensor([tail, 1 - tail], dtype=torch.float64)
    low, high = torch.nanquantile(resampled, ends).tolist()
    return value, min(low, value), max(high, value)


def _draw(num_samples: int, num_resamples: int, seed: int) -> Iterator[Tensor]:
    """Indices of the resamples, in blocks of shape (R, N)."""
    generator = torch.Generator().manual_seed(seed)
    size = max(1, _BLOCK_ELEMENTS // num_samples)
    for start in range(0, num_resamples, size):
        rows = min(size, num_resamples - start)
        yield torch.randint(num_samples, (rows, num_samples), generator=generator)


def _rows(blocks: Iterator[Tensor], device: torch.device) -> Iterator[Tensor]:
    for block in blocks:
        yield from block.to(device)


def _resampled_means(terms: Tensor, drawn: Tensor) -> Tensor:
    """Means (R, D) of the terms (N, D) over each row of the drawn indices (R, N)."""
    num_rows, num_samples = drawn.shape
    cells = drawn + num_samples * torch.arange(num_rows)[:, None]
    counts = torch.bincount(cells.flatten(), minlength=drawn.numel()).view_as(drawn)
    return counts.to(terms) @ terms / num_samples


Finish = Callable[[Tensor], Tensor]


def _sample_means(
    metric: MetricFunction, probs: Tensor, labels: Tensor
) -> tuple[Tensor, Finish] | None:
    """`metric` as terms (N, D) and a function of their means, (R, D) -> (R,); or None."""
    function, keywords = _unbound(metric)
    if function is expected_calibration_error:
        terms = _gaps_per_bin(probs, labels, **keywords)
        return terms, lambda means: means.abs().sum(dim=1)
    if function not in _OF_MEAN:
        return None
    of_samples, finish = _OF_MEAN[function]
    return of_samples(probs, labels).double()[:, None], lambda means: finish(means[:, 0])


_OF_MEAN: dict[Callable[..., float], tuple[Callable[[Tensor, Tensor], Tensor], Finish]] = {
    negative_log_likelihood: (log_losses, lambda mean: mean),
    brier_score: (squared_errors, lambda mean: mean),
    root_brier_score: (squared_errors, torch.sqrt),
    accuracy: (lambda probs, labels: top_label(probs, labels)[1], lambda mean: mean),
    error_rate: (lambda probs, labels: ~top_label(probs, labels)[1], lambda mean: mean),
}
"""Metrics that are a function of the mean of a value per sample: this value, and the function."""


def _unbound(metric: MetricFunction) -> tuple[Callable[..., float], dict[str, Any]]:
    """The underlying function, and the keywords bound by `functools.partial`."""
    if isinstance(metric, partial) and not metric.args:
        return metric.func, metric.keywords
    return metric, {}


def _smallest_parts(
    metric: MetricFunction, probs: Tensor, labels: Tensor
) -> tuple[Callable[..., Tensor | float], Tensor, Tensor]:
    """A function and its two inputs to resample: scores and correctness (N,) if they suffice."""
    function, keywords = _unbound(metric)
    of_top_label = _OF_TOP_LABEL.get(function)
    if of_top_label is None:
        return metric, probs, labels
    scores, correct = top_label(probs, labels)
    keywords = dict(keywords)
    if "confidence" in keywords:
        scores = confidence_scores(probs, keywords.pop("confidence"))
    return partial(of_top_label, **keywords), scores, correct


_OF_TOP_LABEL: dict[Callable[..., float], Callable[..., Tensor | float]] = {
    adaptive_calibration_error: lambda s, c, num_bins=15: binned_error(
        rank_top_label(s, c), num_bins, "equal_mass"
    ),
    maximum_calibration_error: lambda s, c, num_bins=15: maximum_gap(
        rank_top_label(s, c), num_bins
    ),
    debiased_calibration_error: lambda s, c, num_bins=15: debiased_error(
        rank_top_label(s, c), num_bins
    ),
    sweep_calibration_error: lambda s, c: sweep_error(rank_top_label(s, c)),
    smooth_calibration_error: smooth_error,
    failure_auroc: lambda s, c: rank_top_label(s, c).auroc(),
    aurc: risk_coverage_area,
    e_aurc: lambda s, c: risk_coverage_area(s, c) - perfect_ranking_area(c),
}
"""Metrics that depend only on scores (N,) and correctness (N,)."""


def _gaps_per_bin(probs: Tensor, labels: Tensor, num_bins: int = 15) -> Tensor:
    """(Confidence - correct) in the column of the sample's equal-width bin, 0 elsewhere, (N, B)."""
    check_count("num_bins", num_bins)
    confidence, correct = top_label(probs, labels)
    column = torch.searchsorted(upper_edges(confidence, num_bins), confidence)
    gaps = torch.zeros(len(labels), num_bins, dtype=torch.float64, device=probs.device)
    return gaps.scatter_(1, column[:, None], (confidence.double() - correct.double())[:, None])
