"""The calibration part of the NLL: what a temperature removes from it."""

from torch import Tensor

from trainables.metrics.inference.clusters import clusters_of
from trainables.metrics.inference.influence import mean_interval
from trainables.metrics.proper_scores import log_losses_of_logits


def nll_calibration(
    logits: Tensor,
    scaled: Tensor,
    labels: Tensor,
    confidence: float = 0.95,
    clusters: Tensor | None = None,
) -> tuple[float, float, float]:
    """NLL less the NLL after scaling, with the lower and upper end of its interval.

    The interval is for this scaling on infinitely many samples. It covers only if the scaling was
    fitted on other samples.

    Args:
        logits: Shape (N, K).
        scaled: The same logits after scaling, such as division by a temperature, (N, K).
        labels: True classes, shape (N,), integers.
        confidence: Level of the interval, in (0, 1).
        clusters: See `interval`.
    """
    values = nll_reductions(logits, scaled, labels)
    grouped = clusters_of(clusters, len(labels))
    return float(values.mean()), *mean_interval(values, confidence, grouped)


def nll_reductions(logits: Tensor, scaled: Tensor, labels: Tensor) -> Tensor:
    """The reduction of each sample's log loss by scaling its logits, float64 (N,)."""
    return log_losses_of_logits(logits, labels) - log_losses_of_logits(scaled, labels)
