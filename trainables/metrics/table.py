"""The table of metrics, and all metrics of a set of predictions in one pass."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from torch import Tensor

from trainables.metrics._beta_kernel import top_label_kernel_error
from trainables.metrics._inputs import check_logits, probabilities
from trainables.metrics._predictions import NUM_BINS, Predictions
from trainables.metrics.calibration import (
    adaptive_calibration_error,
    binned_error,
    classwise_calibration_error,
    debiased_calibration_error,
    debiased_error,
    event_calibration_error,
    expected_calibration_error,
    maximum_calibration_error,
    maximum_gap,
)
from trainables.metrics.kernel_density import kde_calibration_error
from trainables.metrics.proper_scores import (
    accuracy,
    brier_score,
    error_rate,
    mean_iou,
    negative_log_likelihood,
    root_brier_score,
)
from trainables.metrics.separation import (
    aurc,
    e_aurc,
    failure_auroc,
    log_loss_area,
    multiclass_auroc,
    nll_aurc,
    perfect_ranking_area,
)
from trainables.metrics.smooth import smooth_calibration_error, smooth_error
from trainables.plugins.arguments import check_choice


@dataclass(frozen=True)
class Metric:
    """One metric.

    Attributes:
        name: Name in sweep files, tables and MLflow, where it follows the split: `val_<name>`.
        function: Computes the metric from probabilities (N, K) and labels (N,).
        description: One line, including the range.
        higher_is_better: Whether a larger value is better.
        two_classes: Whether it is defined for two classes only.
        on_request: Whether it is computed only where it is named, as it takes long or is of special
            use.
        shared: Computes the same value from intermediate results that metrics share, if there are
            any.
    """

    name: str
    function: Callable[[Tensor, Tensor], float]
    description: str
    higher_is_better: bool = False
    two_classes: bool = False
    on_request: bool = False
    shared: Callable[[Predictions], Tensor | float] | None = None

    def value(self, predictions: Predictions) -> float:
        """Returns the metric of `predictions`."""
        if self.shared is None:
            return self.function(predictions.probs, predictions.labels)
        return float(self.shared(predictions))


METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric(
            "ece",
            expected_calibration_error,
            "expected calibration error of the top label, 15 bins of equal width; in [0, 1]",
            shared=lambda p: binned_error(p.ranked, NUM_BINS, "equal_width")[0],
        ),
        Metric(
            "adaptive_ece",
            adaptive_calibration_error,
            "expected calibration error of the top label, 15 bins of equal mass; in [0, 1]",
            shared=lambda p: binned_error(p.ranked, NUM_BINS, "equal_mass")[0],
        ),
        Metric(
            "classwise_ece",
            classwise_calibration_error,
            "calibration error of each class's probability, 15 bins of equal width, mean over"
            " classes; in [0, 1]",
            shared=lambda p: p.classwise[0].mean(),
        ),
        Metric(
            "classwise_adaptive_ece",
            partial(classwise_calibration_error, binning="equal_mass"),
            "calibration error of each class's probability, 15 bins of equal mass, mean over"
            " classes; in [0, 1]",
            shared=lambda p: p.classwise[1].mean(),
        ),
        Metric(
            "mce",
            maximum_calibration_error,
            "largest gap of a bin of equal width between confidence and accuracy; in [0, 1]",
            shared=lambda p: maximum_gap(p.ranked, NUM_BINS),
        ),
        Metric(
            "smooth_ece",
            smooth_calibration_error,
            "calibration error of the top label, smoothed by a kernel instead of bins; in [0, 1]",
            shared=lambda p: smooth_error(*p.top),
        ),
        Metric(
            "kde_ece",
            partial(kde_calibration_error, kind="top_label"),
            "calibration error of the top label by kernel density estimation; in [0, 1]",
            shared=lambda p: top_label_kernel_error(*p.top),
        ),
        Metric(
            "debiased_ece",
            debiased_calibration_error,
            "root of the squared calibration error of the top label less its bias; in [0, 1]",
            shared=lambda p: debiased_error(p.ranked, NUM_BINS),
        ),
        Metric(
            "event_ece",
            event_calibration_error,
            "two classes: calibration error of the probability of one of them, 15 bins of equal"
            " mass; in [0, 1]",
            two_classes=True,
            shared=lambda p: p.classwise[1].mean(),
        ),
        Metric(
            "nll",
            negative_log_likelihood,
            "negative log-likelihood per sample, natural logarithm; at least 0",
            shared=lambda p: p.log_losses.mean(),
        ),
        Metric(
            "brier",
            brier_score,
            "squared error of the probabilities summed over classes; in [0, 2]",
            shared=lambda p: p.squared_errors.mean(),
        ),
        Metric(
            "root_brier",
            root_brier_score,
            "square root of the Brier score, an upper bound of calibration errors; in [0, 1.42]",
            shared=lambda p: p.squared_errors.mean().sqrt(),
        ),
        Metric(
            "accuracy",
            accuracy,
            "share of right predictions; in [0, 1]",
            higher_is_better=True,
            shared=lambda p: p.top[1].double().mean(),
        ),
        Metric(
            "error",
            error_rate,
            "share of wrong predictions; in [0, 1]",
            shared=lambda p: 1 - p.top[1].double().mean(),
        ),
        Metric(
            "auroc",
            multiclass_auroc,
            "area under the ROC curve of each class against the rest, mean over classes; in [0, 1]",
            higher_is_better=True,
            shared=lambda p: p.classwise[2].nanmean(),
        ),
        Metric(
            "failure_auroc",
            failure_auroc,
            "how well confidence separates right from wrong predictions, area under the ROC curve;"
            " in [0, 1]",
            higher_is_better=True,
            shared=lambda p: p.ranked.auroc()[0],
        ),
        Metric(
            "aurc",
            aurc,
            "area under the risk-coverage curve; in [0, 1]",
            shared=lambda p: p.aurc,
        ),
        Metric(
            "e_aurc",
            e_aurc,
            "area under the risk-coverage curve beyond that of a perfect ranking; in [0, 1]",
            shared=lambda p: p.aurc - perfect_ranking_area(p.top[1]),
        ),
        Metric(
            "canonical_kde_ece",
            kde_calibration_error,
            "calibration error of all probabilities jointly (canonical), L1 over classes, by kernel"
            " density estimation; in [0, 2]",
            on_request=True,
        ),
        Metric(
            "nll_aurc",
            nll_aurc,
            "area under the risk-coverage curve with the log loss as the risk; at least 0",
            on_request=True,
            shared=lambda p: log_loss_area(p.top[0], p.log_losses),
        ),
        Metric(
            "mean_iou",
            mean_iou,
            "intersection over union of predicted and true samples, mean over classes; in [0, 1]",
            higher_is_better=True,
            on_request=True,
        ),
    )
}
"""All metrics that :func:`~trainables.metrics.evaluate` knows, by name."""

METRIC_NAMES = tuple(
    metric.name for metric in METRICS.values() if not metric.two_classes and not metric.on_request
)
"""Names of the metrics of any number of classes that are computed unasked."""
ON_REQUEST = tuple(metric.name for metric in METRICS.values() if metric.on_request)
"""Names of the metrics that are computed only where they are named."""


def chosen_metrics(names: Sequence[str] | None, num_classes: int) -> tuple[str, ...]:
    """The names; of None, all metrics of this number of classes but those on request.

    Raises ValueError for an unknown name, or a metric of two classes with more of them.
    """
    if names is None:
        return tuple(
            each.name
            for each in METRICS.values()
            if not each.on_request and (num_classes == 2 or not each.two_classes)
        )
    for name in names:
        if METRICS[check_choice("metric", name, METRICS)].two_classes and num_classes != 2:
            raise ValueError(f"{name} is defined for two classes, not {num_classes}")
    return tuple(names)


EPOCH_METRICS = ("ece", "adaptive_ece", "nll", "brier", "error")
"""Names of the metrics that trials compute after each epoch, for schedulers: cheap ones."""


def evaluate(
    logits: Tensor,
    labels: Tensor,
    names: Sequence[str] | None = None,
    *,
    probabilities_as_logits: bool = False,
) -> dict[str, float]:
    """Compute metrics from a classifier's logits, with one softmax and one sort per class.

    Each value equals that of the function in this package with default arguments (15 bins; top
    label for `kde_ece`) on softmax(logits). `nll` is computed from the logits; it is infinite only
    if the logit of a label is -inf.

    Args:
        logits: Shape (N, K), floats, on CPU or GPU, finite or -inf (a masked class). Half precision
            is converted to float32.
        labels: True classes, shape (N,), integers.
        names: Names of metrics; None for all that this number of classes has but `ON_REQUEST`.
            `EPOCH_METRICS` are much faster than all.
        probabilities_as_logits: Take the softmax also of logits that look like probabilities: all
            in [0, 1], and each row sums to one. By default they are a ValueError.

    Returns:
        Metrics by name, in the order of `names`. `auroc` and `failure_auroc` are nan if undefined,
            `kde_ece` is nan if N = 1.
    """
    checked, targets = check_logits(logits, labels, probabilities_as_logits=probabilities_as_logits)
    predictions = Predictions(probabilities(checked), targets, checked)
    chosen = chosen_metrics(names, checked.shape[1])
    return {name: METRICS[name].value(predictions) for name in chosen}
