"""Dual focal loss: focal loss that also looks at the class just below the true one."""

from typing import ClassVar

import torch
from torch import Tensor

from trainables.losses.base import PerSampleLoss, of_classes
from trainables.losses.focal import one_minus_p
from trainables.plugins.arguments import Bounds


class DualFocal(PerSampleLoss):
    """Dual focal loss; the gradient flows through p_y and p_j.

    p_j is the largest probability strictly below p_y, 0 if there is none; so it is not the
    runner-up where the prediction is wrong. The mean over samples, where the authors' code sums.

    Args:
        num_classes: Number K of classes.
        gamma: Exponent γ; 0 is cross-entropy.
    """

    source: ClassVar[str] = "Tao et al. 2023, eq. 3"
    formula: ClassVar[str] = "−(1−p_y+p_j)^γ log p_y, p_j = max{p_i : p_i < p_y}"
    bounds: ClassVar = {"gamma": Bounds(0, 100)}

    def __init__(self, num_classes: int, gamma: float = 5.0) -> None:
        super().__init__(num_classes)
        self.gamma = self.check("gamma", gamma)

    def class_terms(self, logits: Tensor, classes: Tensor | None) -> Tensor:
        log_probs = logits.log_softmax(1)
        log_p, p_j = of_classes(log_probs, classes), next_below(log_probs, classes)
        return -((one_minus_p(log_p) + p_j) ** self.gamma) * log_p


def next_below(log_probs: Tensor, classes: Tensor | None) -> Tensor:
    """p_j, the largest probability strictly below that of a class; 0 if there is none.

    Logarithms are compared, as the exponential may give equal numbers different last bits.

    Args:
        log_probs: (N, K).
        classes: As in :meth:`PerSampleLoss.class_terms`.
    """
    with torch.no_grad():
        if classes is not None:
            # Of the differences below 0 the one nearest to 0 has the least inverse; 1 / 0 is inf.
            inverse = (log_probs - log_probs.gather(1, classes)).reciprocal()
            least, next_class = inverse.min(1, keepdim=True)
            exists = least < 0
        else:  # the same for every class in turn, without comparing all pairs
            ascending, order = log_probs.sort(1)
            rank = torch.searchsorted(ascending, log_probs) - 1
            next_class, exists = order.gather(1, rank.clamp_min(0)), rank >= 0
    return log_probs.gather(1, next_class).exp() * exists
