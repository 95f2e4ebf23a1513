"""Proper scores, top-1 accuracy and mean IoU."""

import torch
from torch import Tensor

from trainables.metrics._inputs import check_probs, map_rows, row_blocks
from trainables.metrics._ranked import top_label

TINY = torch.finfo(torch.float32).tiny


def negative_log_likelihood(probs: Tensor, labels: Tensor) -> float:
    """Mean of -log p_y, natural logarithm, at least 0.

    A p_y of 0 counts as half of the smallest positive probability in `probs`, so the value is
    finite: the NLL is then a lower bound. `evaluate` starts from logits and does not need this.
    """
    return float(log_losses(*check_probs(probs, labels)).mean())


def brier_score(probs: Tensor, labels: Tensor) -> float:
    """Mean over samples of the squared error summed over classes, in [0, 2]. Brier 1950."""
    return float(squared_errors(*check_probs(probs, labels)).mean())


def root_brier_score(probs: Tensor, labels: Tensor) -> float:
    """Root of `brier_score`: an upper bound of calibration errors (Gruber & Buettner 2022)."""
    return float(squared_errors(*check_probs(probs, labels)).mean().sqrt())


def accuracy(probs: Tensor, labels: Tensor) -> float:
    """Share of samples whose most probable class is the label; ties go to the first class."""
    _, correct = top_label(*check_probs(probs, labels))
    return float(correct.double().mean())


def error_rate(probs: Tensor, labels: Tensor) -> float:
    """Share of samples whose most probable class is not the label; ties go to the first class."""
    return 1 - accuracy(probs, labels)


def mean_iou(probs: Tensor, labels: Tensor) -> float:
    """Mean over classes of intersection over union of predicted and true samples, in [0, 1].

    The usual metric of segmentation, where samples are pixels. Classes that are neither predicted
    nor true are left out of the mean.
    """
    probs, labels = check_probs(probs, labels)
    predicted, num_classes = probs.argmax(dim=1), probs.shape[1]
    both, ours, theirs = (
        each.bincount(minlength=num_classes)
        for each in (labels[predicted == labels], predicted, labels)
    )
    union = ours + theirs - both
    return float((both[union > 0].double() / union[union > 0]).mean())


def log_losses(probs: Tensor, labels: Tensor) -> Tensor:
    """-log p_y of each sample of checked probabilities, float64 (N,), finite."""
    own = _at_label(probs, labels).double()
    if own.min() <= 0:
        own = own.clamp(min=probability_floor(probs))
    return -own.log()


def probability_floor(probs: Tensor) -> float:
    """What a probability of 0 counts as in a logarithm, for any dtype.

    Half of the smallest probability between 0 and 1: forests, isotonic regression and rounded files
    give 0 where they mean “less than one step”. Without any, the smallest normal float32, 1.2e-38.
    """
    blocks = row_blocks(probs)
    smallest = min(float(torch.where((p > 0) & (p < 1), p, 1.0).amin()) for (p,) in blocks)
    return smallest / 2 if smallest < 1 else TINY


def log_losses_of_logits(logits: Tensor, labels: Tensor) -> Tensor:
    """-log p_y of each sample of checked logits, float64 (N,), finite."""
    return map_rows(_log_losses_of_logits, logits, labels)


def squared_errors(probs: Tensor, labels: Tensor) -> Tensor:
    """Squared error of each sample of checked probabilities, summed over classes, float64 (N,)."""
    squares = map_rows(_squared_norms, probs)
    errors = squares + 1 - 2 * _at_label(probs, labels).double()
    return errors.clamp(min=0)  # a perfect prediction may round to -1e-16


def _log_losses_of_logits(logits: Tensor, labels: Tensor) -> Tensor:
    centred = logits.double() - logits.amax(dim=1, keepdim=True)
    own = _at_label(centred, labels)
    return centred.exp_().sum(dim=1).log() - own


def _squared_norms(probs: Tensor) -> Tensor:
    # Many times faster than a sum of squares, which needs temporaries in float64.
    norms: Tensor = torch.linalg.vector_norm(probs, dim=1, dtype=torch.float64)
    return norms.square()


def _at_label(values: Tensor, labels: Tensor) -> Tensor:
    return values.gather(1, labels[:, None])[:, 0]
