"""All metrics of a set of predictions in one pass."""

from collections.abc import Sequence

from torch import Tensor

from trainables.metrics._inputs import check_logits, warn_of_probabilities
from trainables.metrics._predictions import Predictions
from trainables.metrics.table import METRIC_NAMES, METRICS
from trainables.plugins.arguments import did_you_mean


def evaluate(
    logits: Tensor, labels: Tensor, names: Sequence[str] | None = None
) -> dict[str, float]:
    """Metrics of a classifier's logits, with one softmax and one sort per class.

    Each value equals that of its function in this package with default arguments (15 bins;
    `kde_ece` of the top label) on softmax(logits). `nll` is computed from the logits; it is
    infinite only if a label has a logit of -inf. Warns if `logits` look like probabilities.

    Args:
        logits: Shape (N, K), floats, CPU or GPU, finite or -inf (a class ruled out); half precision
            is computed as float32.
        labels: True classes, shape (N,), integers.
        names: Names of metrics; None for all. `EPOCH_METRICS` take far less time than all.

    Returns:
        Name to value, in the order of `names`: fractions, not percent; `auroc` and `failure_auroc`
        are nan where undefined, `kde_ece` is nan where N = 1.

    Raises:
        TypeError: If the arguments are not tensors of floats and of integers.
        ValueError: If shapes or values are not as above, or a name is unknown.
    """
    chosen = METRIC_NAMES if names is None else tuple(names)
    for name in chosen:
        check_metric_name(name)
    checked, targets = check_logits(logits, labels)
    warn_of_probabilities(checked, stacklevel=2)
    predictions = Predictions(checked, targets)
    return {name: METRICS[name].value(predictions) for name in chosen}


def check_metric_name(name: str) -> None:
    """Raise ValueError unless `name` is one of the metrics."""
    if name not in METRICS:
        hint = did_you_mean(str(name), METRICS)
        raise ValueError(f"unknown metric {name!r}{hint}; allowed: {', '.join(METRICS)}")
