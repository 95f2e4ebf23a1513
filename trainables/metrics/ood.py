"""Out-of-distribution detection."""

import torch
from torch import Tensor

_METRICS = ("auroc", "aupr_in", "aupr_out", "fpr_at_95_tpr", "detection_error")


def ood_metrics(in_scores: Tensor, out_scores: Tensor) -> dict[str, float]:
    """Metrics of a score that separates in-distribution from out-of-distribution samples.

    Args:
        in_scores: Scores of in-distribution samples (the positives), shape (N,), finite floats. A
            higher score means more in-distribution, as for a confidence.
        out_scores: Scores of out-of-distribution samples, (M,), finite floats on the same device.

    Returns:
        `auroc`; `aupr_in` and `aupr_out`, the average precision with in- or out-of-distribution
            samples as the positives; `fpr_at_95_tpr`, the false-positive rate at the ROC point
            whose true-positive rate is closest to 95 % (the lowest such rate, Moon et al. 2020);
            `detection_error`, the minimum over thresholds of the mean of miss rate and
            false-positive rate (Liang et al. 2018). Equal scores share one threshold.
    """
    inside, outside = _check("in_scores", in_scores), _check("out_scores", out_scores)
    hits, false_alarms = _counts_per_threshold(inside, outside)
    tpr, fpr = hits / len(inside), false_alarms / len(outside)
    values = (
        torch.trapezoid(tpr, fpr),
        _average_precision(hits, false_alarms),
        _average_precision(*_counts_per_threshold(-outside, -inside)),
        fpr[(tpr - 0.95).abs().argmin()],
        ((1 - tpr + fpr) / 2).min(),
    )
    return dict(zip(_METRICS, torch.stack(values).tolist(), strict=True))


def _counts_per_threshold(positives: Tensor, negatives: Tensor) -> tuple[Tensor, Tensor]:
    """Numbers of positives and negatives at or above each distinct score, from (0, 0) upwards."""
    scores = torch.cat([positives, negatives])
    _, level, total = torch.unique(scores, return_inverse=True, return_counts=True)
    hits = torch.bincount(level[: len(positives)], minlength=len(total))
    counts = torch.stack([hits, total - hits]).flip(1).cumsum(1).double()
    true_positives, false_positives = torch.nn.functional.pad(counts, (1, 0))
    return true_positives, false_positives


def _average_precision(hits: Tensor, false_alarms: Tensor) -> Tensor:
    precision = hits[1:] / (hits[1:] + false_alarms[1:])
    return (precision * hits.diff()).sum() / hits[-1]


def _check(name: str, scores: Tensor) -> Tensor:
    if not isinstance(scores, Tensor) or not scores.is_floating_point():
        found = scores.dtype if isinstance(scores, Tensor) else type(scores).__name__
        raise TypeError(f"{name} must be a tensor of floats, got {found}")
    if scores.ndim != 1 or len(scores) == 0:
        raise ValueError(f"{name} must have shape (N,) with N > 0, got {tuple(scores.shape)}")
    if not scores.isfinite().all():
        raise ValueError(f"{name} must be finite, got NaN or infinity")
    return scores.detach().double()
