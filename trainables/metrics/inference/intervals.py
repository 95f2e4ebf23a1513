"""Confidence intervals of metrics, see `docs/intervals.md`."""

from collections.abc import Callable, Sequence
from functools import cached_property, partial
from statistics import fmean

import torch
from torch import Tensor

from trainables.metrics._inputs import check_level, check_probs
from trainables.metrics._predictions import NUM_BINS, Predictions
from trainables.metrics._ranked import (
    Binning,
    RankedScores,
    boundaries_of,
    rank_top_label,
    top_label,
)
from trainables.metrics.inference.classwise import ClassRanks, class_ranks, classwise_interval
from trainables.metrics.inference.clustered_errors import ends_of_error
from trainables.metrics.inference.clusters import Clusters, clusters_of
from trainables.metrics.inference.influence import (
    NO_INTERVAL,
    Ends,
    aurc_interval,
    auroc_interval,
    failure_auroc_interval,
    mean_interval,
    share_interval,
)
from trainables.metrics.inference.sampled_errors import corrected_error
from trainables.metrics.inference.top_label_gaps import (
    Problem,
    arrays_of,
    binned_error_of_gaps,
    debiased_error_of_gaps,
    kernel_error_of_gaps,
    smooth_error_of_gaps,
)
from trainables.metrics.inference.unseen import (
    unseen_log_losses,
    unseen_log_losses_of_logits,
    unseen_squared_errors,
)
from trainables.metrics.proper_scores import log_losses_of_logits
from trainables.metrics.table import METRICS, chosen_metrics


def interval(
    name: str,
    probs: Tensor,
    labels: Tensor,
    confidence: float = 0.95,
    clusters: Tensor | None = None,
) -> tuple[float, float, float]:
    """Value of a metric, with the lower and upper end of an interval for the whole population.

    The interval covers the value of the metric on infinitely many samples of the same distribution,
    in the same bins (equal-mass bins: at the quantiles of that distribution). For `kde_ece` this
    value is the mean of |confidence - accuracy given the confidence|.

    Calibration errors are biased upwards, so a value may lie above its own interval. The lower end
    is 0 if a calibrated model could have this value. Both ends are nan if no method is known to
    cover (`mce`) or the metric is undefined. Methods and measured coverage: `docs/intervals.md`.

    Args:
        name: One of `METRICS`.
        probs: Probabilities, shape (N, K), rows sum to one.
        labels: True classes, shape (N,), integers.
        confidence: Level of the interval, in (0, 1).
        clusters: The cluster of each row, shape (N,), integers: a customer, a patient, the image of
            a pixel. Only clusters, not rows, are then independent. With fewer than 10 of them, both
            ends are nan.

    Raises:
        TypeError: If probabilities or labels are not tensors of floats and of integers.
        ValueError: If shapes or values are not as above.
    """
    return intervals(probs, labels, [name], confidence, clusters)[name]


def intervals(
    probs: Tensor,
    labels: Tensor,
    names: Sequence[str] | None = None,
    confidence: float = 0.95,
    clusters: Tensor | None = None,
) -> dict[str, tuple[float, float, float]]:
    """`interval` of several metrics by name, which share their checks and one sort per class.

    `names` is None for all of this number of classes. Each interval has the level `confidence` by
    itself.
    """
    check_level(confidence)
    probs, labels = check_probs(probs, labels)
    chosen = chosen_metrics(names, probs.shape[1])
    predictions = Ranked(probs, labels, clusters_of(clusters, len(labels)))
    return {name: _with_ends(name, predictions, confidence) for name in chosen}


def corrected(name: str, probs: Tensor, labels: Tensor) -> float:
    """A calibration error of the top label, corrected for what noise adds to its value.

    The estimate that :func:`interval` is about, and always in it. `name` is one of `CORRECTED`.
    """
    return corrected_error(*OF_GAPS[name](*top_label(*check_probs(probs, labels))))


class Ranked(Predictions):
    """Predictions whose class-wise metrics and intervals share one sort per class."""

    def __init__(self, probs: Tensor, labels: Tensor, clusters: Clusters | None = None) -> None:
        super().__init__(probs, labels)
        self.clusters = clusters

    @cached_property
    def class_ranks(self) -> ClassRanks:
        """Bins of every class, areas under ROC curves and what rows add to them."""
        return class_ranks(self.probs, self.labels, NUM_BINS, every_row=self.clusters is not None)

    @cached_property
    def classwise(self) -> Tensor:
        """See :class:`Predictions`; from the same sort."""
        ranks, scale = self.class_ranks, len(self.labels)
        errors = [cells.gaps.abs().sum(dim=1) / scale for cells in ranks.cells.values()]
        return torch.stack([*errors, ranks.auroc])


def _with_ends(name: str, predictions: Ranked, level: float) -> tuple[float, float, float]:
    method, clusters = METHODS.get(name), predictions.clusters
    enough = len(predictions.labels) >= 2 if clusters is None else clusters.enough
    ends = method(predictions, level) if method and enough else NO_INTERVAL
    return METRICS[name].value(predictions), *ends


Method = Callable[[Ranked, float], Ends]


def _of_bins(
    confidence: Tensor,
    correct: Tensor,
    binning: Binning,
    error_of_gaps: Callable[[RankedScores, Tensor], Problem] = binned_error_of_gaps,
) -> Problem:
    ranked = rank_top_label(confidence, correct)
    return error_of_gaps(ranked, boundaries_of(ranked, NUM_BINS, binning))


OF_GAPS: dict[str, Callable[[Tensor, Tensor], Problem]] = {
    "ece": partial(_of_bins, binning="equal_width"),
    "adaptive_ece": partial(_of_bins, binning="equal_mass"),
    "smooth_ece": lambda sure, right: smooth_error_of_gaps(*arrays_of(sure, right)),
    "kde_ece": kernel_error_of_gaps,
    "debiased_ece": partial(_of_bins, binning="equal_mass", error_of_gaps=debiased_error_of_gaps),
}
"""Calibration errors of the top label, as functions of the gaps in cells."""
CORRECTED = tuple(OF_GAPS)
"""Metrics that :func:`corrected` knows."""


def top_label_interval(
    name: str, confidence: Tensor, correct: Tensor, level: float, clusters: Clusters | None = None
) -> Ends:
    """Both ends of the interval of a metric in `OF_GAPS`, from confidences and correctness (N,)."""
    problem = OF_GAPS[name](confidence, correct)
    return ends_of_error(problem, confidence, correct, level, clusters)


TWO_CLASSES: dict[str, str] = {
    "classwise_ece": "ece",
    "classwise_adaptive_ece": "adaptive_ece",
    "event_ece": "adaptive_ece",
}
"""Errors of the top label that are also those of a single class."""


def _by_inversion(name: str) -> Method:
    return lambda p, level: top_label_interval(name, *p.top, level, p.clusters)


def _classwise(p: Ranked, level: float, name: str, binning: Binning) -> Ends:
    if p.probs.shape[1] > 2:
        return classwise_interval(
            p.probs, p.labels, p.class_ranks.cells[binning], level, p.clusters
        )
    # The gaps of both classes are equal, but not their bins where sizes differ by a sample. The
    # error is the mean over both.
    ends = [
        top_label_interval(TWO_CLASSES[name], each, p.labels == index, level, p.clusters)
        for index, each in enumerate(p.probs.T.contiguous())
    ]
    return fmean(low for low, _ in ends), fmean(high for _, high in ends)


def _auroc(p: Ranked, level: float) -> Ends:
    ranks, counts = p.class_ranks, p.labels.bincount(minlength=p.probs.shape[1])
    return auroc_interval(ranks.auroc, counts, ranks.auroc_influence, level, p.clusters)


def _nll(p: Ranked, level: float) -> Ends:
    return mean_interval(p.log_losses, level, p.clusters, unseen_log_losses(p.probs))


def _brier(p: Ranked, level: float) -> Ends:
    return mean_interval(p.squared_errors, level, p.clusters, unseen_squared_errors(p.probs))


def _root_brier(p: Ranked, level: float) -> Ends:
    low, high = _brier(p, level)
    return low**0.5, high**0.5


def _accuracy(p: Ranked, level: float) -> Ends:
    return share_interval(p.top[1], level, p.clusters)


def _error(p: Ranked, level: float) -> Ends:
    low, high = _accuracy(p, level)
    return 1 - high, 1 - low


METHODS: dict[str, Method] = {
    **{name: _by_inversion(name) for name in OF_GAPS},
    "classwise_ece": partial(_classwise, name="classwise_ece", binning="equal_width"),
    "classwise_adaptive_ece": partial(
        _classwise, name="classwise_adaptive_ece", binning="equal_mass"
    ),
    "event_ece": partial(_classwise, name="event_ece", binning="equal_mass"),
    "nll": _nll,
    "brier": _brier,
    "root_brier": _root_brier,
    "accuracy": _accuracy,
    "error": _error,
    "auroc": _auroc,
    "failure_auroc": lambda p, level: failure_auroc_interval(*p.top, level, p.clusters),
    "aurc": lambda p, level: aurc_interval(*p.top, level, p.clusters, excess=False),
    "e_aurc": lambda p, level: aurc_interval(*p.top, level, p.clusters, excess=True),
}
"""Both ends by metric; `mce` has none, because a bin with a few samples can determine it."""


def nll_calibration(
    logits: Tensor,
    scaled: Tensor,
    labels: Tensor,
    confidence: float = 0.95,
    clusters: Tensor | None = None,
) -> tuple[float, float, float]:
    """NLL less the NLL after scaling, with the lower and upper end of its interval.

    The interval is for this scaling on infinitely many samples. It covers only if the scaling was
    fitted on other samples. `scaled` are the logits (N, K) after scaling, such as division by a
    temperature. For the other arguments, and errors, see `interval`.
    """
    values = nll_reductions(logits, scaled, labels)
    grouped = clusters_of(clusters, len(labels))
    before, after = (unseen_log_losses_of_logits(each)[1] for each in (logits, scaled))
    seen = values.min(), values.max()
    unseen = min(float(seen[0]), before - after), max(float(seen[1]), before - after)
    return float(values.mean()), *mean_interval(values, confidence, grouped, unseen)


def nll_reductions(logits: Tensor, scaled: Tensor, labels: Tensor) -> Tensor:
    """The reduction of each sample's log loss by scaling its logits, float64 (N,)."""
    return log_losses_of_logits(logits, labels) - log_losses_of_logits(scaled, labels)
