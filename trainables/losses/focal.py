"""The focal family: cross-entropy weighted by a power of the true-class probability."""

from typing import ClassVar

import torch
from torch import Tensor

from trainables.checks import check_number
from trainables.losses.closed_form import ClosedFormLoss


def focal_terms(
    log_p: Tensor, gamma: float | Tensor, sign: float | Tensor = 1.0
) -> tuple[Tensor, Tensor]:
    """−(1−s·p)^γ log p and its derivative by log p, finite also at p = 0 and p = 1.

    Args:
        log_p: Logarithm of the true-class probability, any shape.
        gamma: γ >= 0, a number or of the shape of ``log_p``.
        sign: s, 1 for focal and −1 for inverse focal loss; a number or of that shape.
    """
    p_minus_1 = torch.expm1(log_p)
    # At p = 1 the base may be 0; log p is then 0 too, and log p / base stays finite.
    base = (1 - sign - sign * p_minus_1).clamp_min_(torch.finfo(log_p.dtype).tiny)
    weight = base**gamma
    slope = weight * (sign * gamma * (p_minus_1 + 1) * (log_p / base) - 1)
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


class FocalSampleDependent(ClosedFormLoss):
    """FLSD-53: focal loss with γ = 5 where p_y < 0.2, else γ = 3.

    The gradient flows through the weight, not through the choice of γ.

    Args:
        num_classes: Number K of classes.
    """

    source: ClassVar[str] = "Mukhoti et al. 2020, section 4"
    formula: ClassVar[str] = "−(1−p_y)^γ log p_y, γ = 5 if p_y < 0.2 else 3"
    looks_across_batch: ClassVar[bool] = False

    def value_and_gradient(self, logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        log_probs = logits.log_softmax(1)
        log_p = log_probs.gather(1, targets.unsqueeze(1))
        gamma = torch.where(log_p.exp() < 0.2, 5.0, 3.0).to(log_p.dtype)
        terms, slopes = focal_terms(log_p, gamma)
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
        terms, slopes = focal_terms(log_p, self.gamma, sign=-1.0)
        return mean_and_gradient(log_probs, targets, terms, slopes)
