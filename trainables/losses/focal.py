"""The focal family: cross-entropy weighted by a power of the true-class probability."""

from typing import ClassVar

import torch
from torch import Tensor

from trainables.checks import check_number
from trainables.losses.closed_form import ClosedFormLoss


def focal_terms(log_p: Tensor, gamma: float | Tensor) -> tuple[Tensor, Tensor]:
    """−(1−p)^γ log p and its derivative by log p, finite also at p = 0 and p = 1.

    Args:
        log_p: Logarithm of the true-class probability, any shape.
        gamma: γ >= 0, a number or of the shape of ``log_p``.
    """
    # With q = 1 − p the derivative is −q^γ + γ·q^(γ−1)·p·log p; as log p ≈ −q near q = 0, it is
    # finite when log p / q is taken first.
    q = torch.expm1(log_p).neg_().clamp_min_(torch.finfo(log_p.dtype).tiny)
    weight = q**gamma
    slope = weight * (gamma * (1 - q) * (log_p / q) - 1)
    return -weight * log_p, slope


def inverse_focal_terms(log_p: Tensor, gamma: float | Tensor) -> tuple[Tensor, Tensor]:
    """−(1+p)^γ log p and its derivative by log p; arguments as :func:`focal_terms`."""
    p = log_p.exp()
    weight = (1 + p) ** gamma
    slope = -weight * (gamma * p / (1 + p) * log_p + 1)
    return -weight * log_p, slope


def mean_and_gradient(
    log_probs: Tensor, targets: Tensor, terms: Tensor, slopes: Tensor
) -> tuple[Tensor, Tensor]:
    """Mean over samples of functions of log p_y, and its derivative by the logits.

    Args:
        log_probs: (N, K), log-softmax of the logits; overwritten.
        targets: (N,) int64.
        terms: (N, 1), the function's value for each sample.
        slopes: (N, 1), its derivative by log p_y.
    """
    slopes = slopes / len(log_probs)
    gradient = log_probs.exp_().mul_(-slopes).scatter_add_(1, targets.unsqueeze(1), slopes)
    return terms.mean(), gradient


class Focal(ClosedFormLoss):
    """Focal loss; the gradient flows through the weight.

    The mean over samples, where the authors' calibration code sums.

    Args:
        num_classes: Number K of classes.
        gamma: Exponent γ >= 0; 0 is cross-entropy.
    """

    source: ClassVar[str] = "Lin et al. 2017, eq. 4; Mukhoti et al. 2020, eq. 1"
    formula: ClassVar[str] = "−(1−p_y)^γ log p_y"
    looks_across_batch: ClassVar[bool] = False

    def __init__(self, num_classes: int, gamma: float = 3.0) -> None:
        super().__init__(num_classes)
        self.gamma = check_number("gamma", gamma, low=0)

    def value_and_gradient(self, logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        log_probs = logits.log_softmax(1)
        terms, slopes = focal_terms(log_probs.gather(1, targets.unsqueeze(1)), self.gamma)
        return mean_and_gradient(log_probs, targets, terms, slopes)


class InverseFocal(ClosedFormLoss):
    """Inverse focal loss; the gradient flows through the weight.

    From γ of about 3.6 on, its gradient changes sign for some p_y: the loss then pushes
    probabilities of the true class down.

    Args:
        num_classes: Number K of classes.
        gamma: Exponent γ >= 0; 0 is cross-entropy.
    """

    source: ClassVar[str] = "Wang et al. 2021, eq. 6; Zhou et al. (r-AURC), eq. 3"
    formula: ClassVar[str] = "−(1+p_y)^γ log p_y"
    looks_across_batch: ClassVar[bool] = False

    def __init__(self, num_classes: int, gamma: float = 2.0) -> None:
        super().__init__(num_classes)
        self.gamma = check_number("gamma", gamma, low=0)

    def value_and_gradient(self, logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        log_probs = logits.log_softmax(1)
        log_p = log_probs.gather(1, targets.unsqueeze(1))
        terms, slopes = inverse_focal_terms(log_p, self.gamma)
        return mean_and_gradient(log_probs, targets, terms, slopes)
