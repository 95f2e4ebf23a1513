"""All metrics of a set of predictions in one pass."""

import difflib
from collections.abc import Callable, Sequence
from functools import cached_property

import torch
from torch import Tensor

from trainables.metrics._inputs import check_logits
from trainables.metrics._ranked import RankedScores, rank_classes, rank_top_label
from trainables.metrics._top_label import top_label
from trainables.metrics.calibration import Binning, binned_error, maximum_gap
from trainables.metrics.debiased import debiased_error
from trainables.metrics.kernel_density import kernel_error
from trainables.metrics.proper_scores import log_losses_of_logits, squared_errors
from trainables.metrics.ranking import perfect_ranking_area, risk_coverage_area
from trainables.metrics.smooth import smooth_error

_NUM_BINS = 15


class _Predictions:
    """What several metrics need of one set of predictions, each computed once, on demand."""

    def __init__(self, logits: Tensor, labels: Tensor) -> None:
        self.logits, self.labels = logits, labels

    @cached_property
    def probs(self) -> Tensor:
        return torch.softmax(self.logits, dim=1)

    @cached_property
    def top(self) -> tuple[Tensor, Tensor]:
        return top_label(self.probs, self.labels)

    @cached_property
    def ranked(self) -> RankedScores:
        return rank_top_label(*self.top)

    @cached_property
    def accuracy(self) -> Tensor:
        return self.top[1].double().mean()

    @cached_property
    def brier(self) -> Tensor:
        return squared_errors(self.probs, self.labels).mean()

    @cached_property
    def aurc(self) -> Tensor:
        return risk_coverage_area(*self.top)

    @cached_property
    def classwise(self) -> Tensor:
        """Equal-width error, equal-mass error and AUROC per class, shape (3, K), of one sort."""
        blocks = [
            torch.stack(
                [
                    binned_error(ranked, _NUM_BINS, "equal_width"),
                    binned_error(ranked, _NUM_BINS, "equal_mass"),
                    ranked.auroc(),
                ]
            )
            for ranked in rank_classes(self.probs, self.labels)
        ]
        return torch.cat(blocks, dim=1)

    def top_label_error(self, binning: Binning) -> Tensor:
        return binned_error(self.ranked, _NUM_BINS, binning)[0]


_METRICS: dict[str, Callable[[_Predictions], Tensor | float]] = {
    "ece": lambda p: p.top_label_error("equal_width"),
    "adaptive_ece": lambda p: p.top_label_error("equal_mass"),
    "classwise_ece": lambda p: p.classwise[0].mean(),
    "classwise_adaptive_ece": lambda p: p.classwise[1].mean(),
    "mce": lambda p: maximum_gap(p.ranked, _NUM_BINS),
    "smooth_ece": lambda p: smooth_error(*p.top),
    "kde_ece": lambda p: kernel_error(p.probs, p.labels),
    "debiased_ece": lambda p: debiased_error(p.ranked, _NUM_BINS),
    "nll": lambda p: log_losses_of_logits(p.logits, p.labels).mean(),
    "brier": lambda p: p.brier,
    "root_brier": lambda p: p.brier.sqrt(),
    "accuracy": lambda p: p.accuracy,
    "error": lambda p: 1 - p.accuracy,
    "auroc": lambda p: p.classwise[2].nanmean(),
    "failure_auroc": lambda p: p.ranked.auroc()[0],
    "aurc": lambda p: p.aurc,
    "e_aurc": lambda p: p.aurc - perfect_ranking_area(p.top[1]),
}
METRIC_NAMES = tuple(_METRICS)
"""All names that :func:`evaluate` knows."""


def evaluate(
    logits: Tensor, labels: Tensor, names: Sequence[str] | None = None
) -> dict[str, float]:
    """Metrics of a classifier's logits, with one softmax and one sort per class.

    Each value is that of the function of its name in this package with its default arguments
    (15 bins, canonical KDE) on softmax(logits); `nll` is taken from the logits and always finite,
    `error` is 1 - accuracy.

    Args:
        logits: shape (N, K), floats, finite, CPU or GPU; half precision is computed as float32.
        labels: true classes, shape (N,), integers.
        names: which metrics, by name; None for all. After each epoch `("nll", "error", "ece",
            "adaptive_ece", "brier")` costs far less than all.

    Returns:
        Name to value, in the order of `names`: fractions, not percent; `auroc` and `failure_auroc`
        are nan where undefined, `kde_ece` is nan where N = 1.

    Raises:
        TypeError: if the arguments are not tensors of floats and of integers.
        ValueError: if shapes or values are not as above, or a name is unknown.
    """
    chosen = tuple(_METRICS) if names is None else tuple(names)
    for name in chosen:
        _check_name(name)
    predictions = _Predictions(*check_logits(logits, labels))
    values = {name: _METRICS[name](predictions) for name in chosen}
    return {name: float(value) for name, value in values.items()}


def _check_name(name: str) -> None:
    if name not in _METRICS:
        close = difflib.get_close_matches(str(name), _METRICS, n=1)
        hint = f"did you mean {close[0]!r}? " if close else ""
        raise ValueError(f"unknown metric {name!r}; {hint}allowed: {', '.join(_METRICS)}")
