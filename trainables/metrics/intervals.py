"""Confidence intervals of metrics, see `docs/intervals.md`."""

from collections.abc import Callable
from functools import partial

from torch import Tensor

from trainables.metrics._beta_kernel import most_likely_bandwidth
from trainables.metrics._classwise import classwise_interval
from trainables.metrics._clustered import clustered_interval
from trainables.metrics._influence import (
    NO_INTERVAL,
    Ends,
    aurc_interval,
    auroc_interval,
    failure_auroc_interval,
    mean_interval,
    proportion_interval,
)
from trainables.metrics._inputs import check_clusters, check_level, check_probs
from trainables.metrics._inversion import Array
from trainables.metrics._predictions import NUM_BINS
from trainables.metrics._ranked import (
    equal_mass_boundaries,
    equal_width_boundaries,
    rank_top_label,
)
from trainables.metrics._sampled_errors import invert_cells
from trainables.metrics._top_label import top_label
from trainables.metrics._top_label_gaps import (
    Problem,
    binned_error_of_gaps,
    debiased_error_of_gaps,
    kernel_error_of_gaps,
    smooth_error_of_gaps,
)
from trainables.metrics.calibration import Binning
from trainables.metrics.evaluation import check_metric_name
from trainables.metrics.proper_scores import log_losses, squared_errors
from trainables.metrics.table import METRICS

_MIN_SAMPLES = 2


def interval(
    name: str, probs: Tensor, labels: Tensor, confidence: float = 0.95, cluster_size: int = 1
) -> tuple[float, float, float]:
    """Value of a metric, with a confidence interval of its value on the whole population.

    The interval covers the value of the metric on infinitely many samples of the same distribution,
    in the same bins (equal-mass bins: at the quantiles of that distribution). For `kde_ece` this
    value is the mean of |confidence - accuracy given the confidence|.

    Calibration errors are biased upwards, so a value may lie above its own interval. The lower end
    is 0 if a calibrated model could have this value. Both ends are nan if no method is known to
    cover (`mce`) or the metric is undefined. Methods and measured coverage:
    `docs/intervals.md`.

    Args:
        name: One of `METRIC_NAMES`.
        probs: Probabilities, shape (N, K), rows sum to one.
        labels: True classes, shape (N,), integers.
        confidence: Level of the interval, in (0, 1).
        cluster_size: Number of consecutive rows of one sample, such as the pixels of an image. Only
            samples, not rows, are then independent. Intervals then need at least 20 samples, and
            only `CLUSTERED_METRICS` have one.

    Returns:
        The value, the lower end and the upper end of the interval.

    Raises:
        TypeError: If the arguments are not tensors of floats and of integers.
        ValueError: If shapes or values are not as above, or the name is unknown.
    """
    check_metric_name(name)
    check_level(confidence)
    probs, labels = check_probs(probs, labels)
    check_clusters(labels, cluster_size)
    if cluster_size > 1:
        ends = clustered_interval(name, probs, labels, cluster_size, confidence)
        return METRICS[name].function(probs, labels), *ends
    method = METHODS.get(name)
    known = method is not None and len(labels) >= _MIN_SAMPLES
    low, high = method(probs, labels, confidence) if method and known else NO_INTERVAL
    return METRICS[name].function(probs, labels), low, high


Method = Callable[[Tensor, Tensor, float], Ends]


def _ece(confidence: Tensor, correct: Tensor) -> Problem:
    ranked = rank_top_label(confidence, correct)
    return binned_error_of_gaps(ranked, equal_width_boundaries(ranked, NUM_BINS))


def _adaptive_ece(confidence: Tensor, correct: Tensor) -> Problem:
    ranked = rank_top_label(confidence, correct)
    return binned_error_of_gaps(ranked, equal_mass_boundaries(ranked, NUM_BINS))


def _debiased_ece(confidence: Tensor, correct: Tensor) -> Problem:
    ranked = rank_top_label(confidence, correct)
    return debiased_error_of_gaps(ranked, equal_mass_boundaries(ranked, NUM_BINS))


def _smooth_ece(confidence: Tensor, correct: Tensor) -> Problem:
    return smooth_error_of_gaps(_to_numpy(confidence), _to_numpy(correct))


def _kde_ece(confidence: Tensor, correct: Tensor) -> Problem:
    return kernel_error_of_gaps(confidence, correct, most_likely_bandwidth(confidence))


def _to_numpy(values: Tensor) -> Array:
    array: Array = values.double().cpu().numpy()
    return array


def two_classes(probs: Tensor, labels: Tensor, binning: Binning) -> Problem:
    """The class-wise error of two classes: their gaps are equal, so one class suffices."""
    ranked = rank_top_label(probs[:, 1].contiguous(), labels == 1)
    place = equal_width_boundaries if binning == "equal_width" else equal_mass_boundaries
    return binned_error_of_gaps(ranked, place(ranked, NUM_BINS))


OF_GAPS: dict[str, Callable[[Tensor, Tensor], Problem]] = {
    "ece": _ece,
    "adaptive_ece": _adaptive_ece,
    "smooth_ece": _smooth_ece,
    "kde_ece": _kde_ece,
    "debiased_ece": _debiased_ece,
}
"""Calibration errors of the top label, as functions of the gaps in cells."""


def top_label_interval(name: str, confidence: Tensor, correct: Tensor, level: float) -> Ends:
    """Both ends of the interval of a metric in `OF_GAPS`, from confidences and correctness (N,)."""
    return invert_cells(*OF_GAPS[name](confidence, correct), level)


def _by_inversion(name: str) -> Method:
    return lambda p, y, level: top_label_interval(name, *top_label(p, y), level)


def _classwise_ece(probs: Tensor, labels: Tensor, level: float, binning: Binning) -> Ends:
    if probs.shape[1] > 2:
        return classwise_interval(probs, labels, NUM_BINS, binning, level)
    return invert_cells(*two_classes(probs, labels, binning), level)


def _nll(probs: Tensor, labels: Tensor, level: float) -> Ends:
    return mean_interval(log_losses(probs, labels), level)


def _brier(probs: Tensor, labels: Tensor, level: float) -> Ends:
    low, high = mean_interval(squared_errors(probs, labels), level)
    return max(low, 0.0), min(high, 2.0)


def _root_brier(probs: Tensor, labels: Tensor, level: float) -> Ends:
    low, high = _brier(probs, labels, level)
    return low**0.5, high**0.5


def _accuracy(probs: Tensor, labels: Tensor, level: float) -> Ends:
    _, correct = top_label(probs, labels)
    return proportion_interval(float(correct.double().mean()), len(labels), level)


def _error(probs: Tensor, labels: Tensor, level: float) -> Ends:
    low, high = _accuracy(probs, labels, level)
    return 1 - high, 1 - low


METHODS: dict[str, Method] = {
    **{name: _by_inversion(name) for name in OF_GAPS},
    "classwise_ece": partial(_classwise_ece, binning="equal_width"),
    "classwise_adaptive_ece": partial(_classwise_ece, binning="equal_mass"),
    "nll": _nll,
    "brier": _brier,
    "root_brier": _root_brier,
    "accuracy": _accuracy,
    "error": _error,
    "auroc": auroc_interval,
    "failure_auroc": lambda p, y, level: failure_auroc_interval(*top_label(p, y), level),
    "aurc": lambda p, y, level: aurc_interval(*top_label(p, y), level, excess=False),
    "e_aurc": lambda p, y, level: aurc_interval(*top_label(p, y), level, excess=True),
}
"""Both ends by metric; `mce` has none: a bin of a few samples can decide it."""
