"""All metrics of a set of predictions in one pass."""

from collections.abc import Sequence

from torch import Tensor

from trainables.metrics._inputs import check_logits, probabilities
from trainables.metrics._predictions import Predictions
from trainables.metrics.table import METRIC_NAMES, METRICS
from trainables.plugins.arguments import did_you_mean


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
        names: Names of metrics; None for all. `EPOCH_METRICS` are much faster than all.
        probabilities_as_logits: Take the softmax also of logits that look like probabilities: all
            in [0, 1], and each row sums to one. By default they are a ValueError.

    Returns:
        Metrics by name, in the order of `names`. `auroc` and `failure_auroc` are nan if undefined,
            `kde_ece` is nan if N = 1.
    """
    chosen = METRIC_NAMES if names is None else tuple(names)
    for name in chosen:
        check_metric_name(name)
    checked, targets = check_logits(logits, labels, probabilities_as_logits=probabilities_as_logits)
    predictions = Predictions(probabilities(checked), targets, checked)
    return {name: METRICS[name].value(predictions) for name in chosen}


def check_metric_name(name: str) -> None:
    """Raise ValueError unless `name` is one of the metrics."""
    if name not in METRICS:
        hint = did_you_mean(str(name), METRICS)
        raise ValueError(f"unknown metric {name!r}{hint}; allowed: {', '.join(METRICS)}")
