"""Bootstrap intervals of metrics."""

from collections.abc import Callable

import torch
from torch import Tensor

from trainables.metrics._inputs import check_count, check_level, check_probs
from trainables.metrics.inference.clusters import clusters_of
from trainables.metrics.inference.influence import NO_INTERVAL

MetricFunction = Callable[[Tensor, Tensor], float]


def bootstrap(
    metric: MetricFunction,
    probs: Tensor,
    labels: Tensor,
    num_resamples: int = 1000,
    confidence: float = 0.95,
    seed: int = 0,
    clusters: Tensor | None = None,
) -> tuple[float, float, float]:
    """Value of a metric, with both ends of a percentile bootstrap interval over samples.

    This is for metrics of your own; :func:`~trainables.metrics.interval` is faster and more
    accurate for all others. Samples are drawn with replacement. Resamples on which the metric is
    undefined (nan) are left out. A calibration error is biased upwards, and more so on resamples.
    If the percentiles exclude the value itself, the interval is widened to include it. The same
    `seed` draws the same resamples for every metric; the rows of a cluster are drawn together. For
    the other arguments, and errors, see `interval`.
    """
    probs, labels = check_probs(probs, labels)
    check_count("num_resamples", num_resamples)
    check_level(confidence)
    grouped = clusters_of(clusters, len(labels))
    value = float(metric(probs, labels))
    if grouped is not None and not grouped.enough:
        return value, *NO_INTERVAL
    generator = torch.Generator().manual_seed(seed)
    of_row = None if grouped is None else torch.from_numpy(grouped.of_row)
    units = len(labels if grouped is None else grouped)
    resampled = torch.empty(num_resamples, dtype=torch.float64)
    for place in range(num_resamples):
        drawn = torch.randint(units, (units,), generator=generator)
        if of_row is not None:
            times = drawn.bincount(minlength=units)[of_row]
            drawn = torch.arange(len(of_row)).repeat_interleave(times)
        drawn = drawn.to(probs.device)
        resampled[place] = float(metric(probs[drawn], labels[drawn]))
    tail = (1 - confidence) / 2
    ends = torch.tensor([tail, 1 - tail], dtype=torch.float64)
    low, high = torch.nanquantile(resampled, ends).tolist()
    return value, min(low, value), max(high, value)
