"""Dual focal loss: focal loss that also looks at the class just below the true one."""

from typing import ClassVar

import torch
from torch import Tensor

from trainables.arguments import check_number
from trainables.losses.closed_form import ClosedFormLoss, log_softmax, pull_back
from trainables.losses.focal import power_term_of_each


def dual_focal_and_gradient(
    log_probs: Tensor, targets: Tensor, gamma: float | Tensor, sign: float | Tensor = 1.0
) -> tuple[Tensor, Tensor]:
    """Mean of −(1−s·(p_y−p_j))^γ log p_y, and its derivative by the logits.

    Args:
        log_probs: (N, K), log-softmax of the logits; overwritten.
        targets: (N,) int64.
        gamma: γ >= 0, a number or (N, 1).
        sign: s, 1 or −1, a number or (N, 1).
    """
    classes = targets.unsqueeze(1)
    log_p = log_probs.gather(1, classes)
    # The largest log-probability below log p_y is where 1 / (log p_k − log p_y) is least, if
    # that is negative. Equal ones give +inf; they are compared before the exponential, which may
    # give equal numbers different last bits.
    nearest, second_class = (log_probs - log_p).reciprocal_().min(1, keepdim=True)
    probs = log_probs.exp_()
    second = probs.gather(1, second_class).mul_(nearest < 0)
    p_minus_1 = log_p.expm1()
    # |log p_y| <= base near p_y = 1, so that log p_y / base stays finite.
    base = (1 - sign + sign * (second - p_minus_1)).clamp_min_(torch.finfo(log_p.dtype).tiny)
    weights = (base**gamma).mul_(-1 / len(base))
    terms = weights * log_p
    value = terms.sum()
    by_second = terms.div_(base).mul_(sign * gamma)
    by_log_p = weights.sub_(p_minus_1.add_(1).mul_(by_second))
    by_log_second = second.mul_(by_second)
    return value, pull_back(probs, (classes, by_log_p), (second_class, by_log_second))


def dual_focal_of_each(
    log_probs: Tensor, gamma: float | Tensor, sign: float | Tensor = 1.0
) -> Tensor:
    """−(1−s·(p_k−p_j))^γ log p_k of each sample for each class k, (N, K), differentiable.

    Args:
        log_probs: (N, K), log-softmax of the logits.
        gamma: γ >= 0, a number or (N, K).
        sign: s, 1 or −1, a number or (N, K).
    """
    with torch.no_grad():
        ascending, order = log_probs.sort(1)
        below = torch.searchsorted(ascending, log_probs) - 1
        second_class = order.gather(1, below.clamp_min(0))
    second = log_probs.exp().gather(1, second_class) * (below >= 0)
    tiny = torch.finfo(log_probs.dtype).tiny
    base = (1 - sign + sign * (second - log_probs.expm1())).clamp_min(tiny)
    return power_term_of_each(log_probs, base, gamma)


class DualFocal(ClosedFormLoss):
    """Dual focal loss; the gradient flows through p_y and p_j.

    p_j is the largest probability strictly below p_y, 0 if there is none; so it is not the
    runner-up where the prediction is wrong. The mean over samples, where the authors' code sums.

    Args:
        num_classes: Number K of classes.
        gamma: Exponent γ in [0, 100]; 0 is cross-entropy.
    """

    source: ClassVar[str] = "Tao et al. 2023, eq. 3"
    formula: ClassVar[str] = "−(1−p_y+p_j)^γ log p_y, p_j = max{p_i : p_i < p_y}"
    looks_across_batch: ClassVar[bool] = False
    soft_targets: ClassVar[bool] = True
    several_labels: ClassVar[bool] = True
    each_pixel: ClassVar[bool] = True

    def __init__(self, num_classes: int, gamma: float = 5.0) -> None:
        super().__init__(num_classes)
        self.gamma = check_number("gamma", gamma, 0, 100)

    def value_and_gradient(self, logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        return dual_focal_and_gradient(log_softmax(logits), targets, self.gamma)

    def class_terms(self, logits: Tensor) -> Tensor:
        return dual_focal_of_each(logits.log_softmax(1), self.gamma)
