"""Ranking metrics: how well scores separate classes, or detect errors and unknown data."""

import torch
from torch import Tensor

from trainables.metrics._inputs import check_numbers, check_probs
from trainables.metrics._ranked import (
    Confidence,
    confidence_scores,
    rank_classes,
    rank_top_label,
    tie_means,
    top_label,
)
from trainables.metrics.proper_scores import log_losses

_OF_UNKNOWN_DATA = ("auroc", "aupr_in", "aupr_out", "fpr_at_95_tpr", "detection_error")


def multiclass_auroc(probs: Tensor, labels: Tensor) -> float:
    """One-vs-rest area under the ROC curve, macro-averaged over classes, in [0, 1].

    A class without positives or without negatives in `labels` has no ROC curve and is left out of
    the mean; nan if no class remains. Ties count one half. Equals scikit-learn's `roc_auc_score`
    with `multi_class="ovr", average="macro"`, which raises if a class is absent.
    """
    probs, labels = check_probs(probs, labels)
    return float(torch.cat([ranked.auroc() for ranked in rank_classes(probs, labels)]).nanmean())


def failure_auroc(
    probs: Tensor, labels: Tensor, confidence: Confidence = "max_probability"
) -> float:
    """Area under the ROC curve of the confidence as a detector of correct predictions, in [0, 1].

    0.5 is chance level, 1 is perfect separation; nan if all predictions are correct, or all wrong.
    `confidence` is "max_probability", "margin" (largest minus second largest) or
    "negative_entropy".
    """
    return float(rank_top_label(*_scored(probs, labels, confidence)).auroc()[0])


def aurc(probs: Tensor, labels: Tensor, confidence: Confidence = "max_probability") -> float:
    """Area under the risk–coverage curve (AURC), in [0, 1]; lower is better.

    The mean over i of the error rate of the i most confident samples. Samples of equal confidence
    share their errors evenly, so the order of the data does not matter. Geifman & El-Yaniv 2017.
    The code of Moon et al. 2020 multiplies by 1,000 and orders ties as in the data. `confidence` is
    as in `failure_auroc`.
    """
    return float(risk_coverage_area(*_scored(probs, labels, confidence)))


def e_aurc(probs: Tensor, labels: Tensor, confidence: Confidence = "max_probability") -> float:
    """Excess AURC: AURC minus that of a perfect ranking, r + (1 - r) ln(1 - r) at error rate r.

    Geifman et al. 2019. A perfect ranking has 0, up to O(1/N).
    """
    scores, correct = _scored(probs, labels, confidence)
    return float(risk_coverage_area(scores, correct) - perfect_ranking_area(correct))


def nll_aurc(probs: Tensor, labels: Tensor, confidence: Confidence = "max_probability") -> float:
    """AURC of the log loss instead of the error, at least 0: -mean_i ln(1 - r_i / (n + 1)) l_i.

    r_i is the rank of the confidence, 1 for the lowest of n; equal confidences share the mean of
    their weights. Zhou et al. (r-AURC), eq. 19. `confidence` is as in `failure_auroc`.
    """
    probs, labels = check_probs(probs, labels)
    return float(log_loss_area(confidence_scores(probs, confidence), log_losses(probs, labels)))


def log_loss_area(scores: Tensor, losses: Tensor) -> Tensor:
    """AURC by eq. 19 of scores (N,) and log losses (N,), a float64 scalar."""
    ordered, order = scores.sort()
    ranks = torch.arange(1, len(ordered) + 1, device=scores.device, dtype=torch.float64)
    weights = tie_means(ordered, -torch.log1p(-ranks / (len(ordered) + 1)))
    return (weights * losses[order].double()).mean()


def risk_coverage(
    probs: Tensor, labels: Tensor, confidence: Confidence = "max_probability"
) -> Tensor:
    """The risk–coverage curve, float64 (N,): error rate of the i most confident samples, i = 1 … N.

    Its mean is :func:`aurc`.
    """
    return _risks(*_scored(probs, labels, confidence))


def _scored(probs: Tensor, labels: Tensor, confidence: Confidence) -> tuple[Tensor, Tensor]:
    """The score of each sample, and whether its prediction is correct, (N,) each."""
    probs, labels = check_probs(probs, labels)
    return confidence_scores(probs, confidence), top_label(probs, labels)[1]


def risk_coverage_area(scores: Tensor, correct: Tensor) -> Tensor:
    """AURC of scores (N,) and correctness (N,), a float64 scalar."""
    return _risks(scores, correct).mean()


def _risks(scores: Tensor, correct: Tensor) -> Tensor:
    ordered, order = scores.sort(descending=True)
    # Of samples of equal score, each adds their error rate to the number of errors.
    expected = tie_means(ordered, (~correct[order]).double()).cumsum(0)
    return expected / torch.arange(1, len(expected) + 1, device=scores.device)


def perfect_ranking_area(correct: Tensor) -> Tensor:
    """AURC of a ranking with all correct predictions first, in the limit of many samples."""
    right = correct.double().mean()
    return 1 - right + torch.xlogy(right, right)


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
    return dict(zip(_OF_UNKNOWN_DATA, torch.stack(values).tolist(), strict=True))


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
    check_numbers(name, scores, "floats")
    if scores.ndim != 1 or len(scores) == 0:
        raise ValueError(f"{name} must have shape (N,) with N > 0, got {tuple(scores.shape)}")
    if not scores.isfinite().all():
        raise ValueError(f"{name} must be finite, got NaN or infinity")
    return scores.detach().double()
