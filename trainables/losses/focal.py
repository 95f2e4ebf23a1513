"""The focal family: cross-entropy weighted by a power of the true-class probability."""

from typing import ClassVar

import torch
from torch import Tensor

from trainables.arguments import check_number
from trainables.losses.closed_form import ClosedFormLoss, log_softmax, pull_back


def power_terms(log_p: Tensor, base: Tensor, gamma: float | Tensor) -> tuple[Tensor, Tensor]:
    """Mean of −b^γ log p, and its derivative by each log p.

    Args:
        log_p: (N, 1), logarithm of the true-class probability.
        base: (N, 1), b = 1 − s·p with s = 1 or −1, and positive.
        gamma: γ >= 0, a number or (N, 1).

    Returns:
        A scalar, and (N, 1).
    """
    weights = (base**gamma).mul_(-1 / len(base))
    terms = weights * log_p
    value = terms.sum()
    # The derivative is −b^γ (1 − γ s p log p / b) with s p = 1 − b. It is finite also near p = 1,
    # where |log p| <= b.
    return value, weights.sub_((terms / base).sub_(terms).mul_(gamma))


def one_minus_p(log_p: Tensor) -> Tensor:
    """1 − p, positive also where p = 1, exact where p is near it."""
    return log_p.expm1().neg_().clamp_min_(torch.finfo(log_p.dtype).tiny)


def power_term_of_each(log_probs: Tensor, base: Tensor, gamma: float | Tensor) -> Tensor:
    """−b^γ log p of each sample for each class, (N, K), differentiable."""
    return -(base**gamma) * log_probs


def one_minus_each(log_probs: Tensor) -> Tensor:
    """:func:`one_minus_p` of each class, differentiable."""
    return (-log_probs.expm1()).clamp_min(torch.finfo(log_probs.dtype).tiny)


class Focal(ClosedFormLoss):
    """Focal loss; the gradient flows through the weight.

    The mean over samples, where the authors' calibration code sums.

    Args:
        num_classes: Number K of classes.
        gamma: Exponent γ in [0, 100]; 0 is cross-entropy.
    """

    source: ClassVar[str] = "Lin et al. 2017, eq. 4; Mukhoti et al. 2020, eq. 1"
    formula: ClassVar[str] = "−(1−p_y)^γ log p_y"
    looks_across_batch: ClassVar[bool] = False
    soft_targets: ClassVar[bool] = True
    several_labels: ClassVar[bool] = True
    each_pixel: ClassVar[bool] = True

    def __init__(self, num_classes: int, gamma: float = 3.0) -> None:
        super().__init__(num_classes)
        self.gamma = check_number("gamma", gamma, 0, 100)

    def value_and_gradient(self, logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        log_probs, classes = log_softmax(logits), targets.unsqueeze(1)
        log_p = log_probs.gather(1, classes)
        value, by_log_p = power_terms(log_p, one_minus_p(log_p), self.gamma)
        return value, pull_back(log_probs.exp_(), (classes, by_log_p))

    def class_terms(self, logits: Tensor) -> Tensor:
        log_probs = logits.log_softmax(1)
        return power_term_of_each(log_probs, one_minus_each(log_probs), self.gamma)


class FocalSampleDependent(ClosedFormLoss):
    """FLSD-53: focal loss with γ = 5 where p_y < 0.2, else γ = 3.

    The gradient flows through the weight, not through the choice of γ.

    Args:
        num_classes: Number K of classes.
    """

    source: ClassVar[str] = "Mukhoti et al. 2020, section 4"
    formula: ClassVar[str] = "−(1−p_y)^γ log p_y, γ = 5 if p_y < 0.2 else 3"
    looks_across_batch: ClassVar[bool] = False
    soft_targets: ClassVar[bool] = True
    several_labels: ClassVar[bool] = True
    each_pixel: ClassVar[bool] = True

    def value_and_gradient(self, logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        log_probs, classes = log_softmax(logits), targets.unsqueeze(1)
        log_p = log_probs.gather(1, classes)
        base = one_minus_p(log_p)
        gamma = torch.where(base > 0.8, 5.0, 3.0).to(log_p.dtype)
        value, by_log_p = power_terms(log_p, base, gamma)
        return value, pull_back(log_probs.exp_(), (classes, by_log_p))

    def class_terms(self, logits: Tensor) -> Tensor:
        log_probs = logits.log_softmax(1)
        base = one_minus_each(log_probs)
        gamma = torch.where(base > 0.8, 5.0, 3.0).to(log_probs.dtype)
        return power_term_of_each(log_probs, base, gamma)


class InverseFocal(ClosedFormLoss):
    """Inverse focal loss; the gradient flows through the weight.

    From γ of about 3.6 on, its gradient changes sign for some p_y: the loss then pushes
    probabilities of the true class down.

    Args:
        num_classes: Number K of classes.
        gamma: Exponent γ in [0, 100]; 0 is cross-entropy.
    """

    source: ClassVar[str] = "Wang et al. 2021, eq. 6; Zhou et al. (r-AURC), eq. 3"
    formula: ClassVar[str] = "−(1+p_y)^γ log p_y"
    looks_across_batch: ClassVar[bool] = False
    soft_targets: ClassVar[bool] = True
    several_labels: ClassVar[bool] = True
    each_pixel: ClassVar[bool] = True

    def __init__(self, num_classes: int, gamma: float = 2.0) -> None:
        super().__init__(num_classes)
        self.gamma = check_number("gamma", gamma, 0, 100)

    def value_and_gradient(self, logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        log_probs, classes = log_softmax(logits), targets.unsqueeze(1)
        log_p = log_probs.gather(1, classes)
        value, by_log_p = power_terms(log_p, log_p.exp().add_(1), self.gamma)
        return value, pull_back(log_probs.exp_(), (classes, by_log_p))

    def class_terms(self, logits: Tensor) -> Tensor:
        log_probs = logits.log_softmax(1)
        return power_term_of_each(log_probs, 1 + log_probs.exp(), self.gamma)
