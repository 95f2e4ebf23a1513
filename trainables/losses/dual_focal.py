"""Dual focal loss."""

from typing import ClassVar

import torch
from torch import Tensor

from trainables.losses.base import PerSampleLoss, of_classes
from trainables.losses.focal import one_minus_p
from trainables.plugins.arguments import Bounds


class DualFocal(PerSampleLoss):
    """Dual focal loss: focal loss that also uses p_j, the probability ranked just below p_y.

    p_j is the largest probability strictly below p_y, or 0 if there is none; it equals the second
    largest probability only if the prediction is correct. The gradient flows through p_y and p_j.
    The loss is the mean over samples; the authors' code uses the sum.

    Args:
        gamma: Exponent γ; 0 gives cross-entropy.
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

    Like the terms of :meth:`PerSampleLoss.class_terms`. It compares log-probabilities, because exp
    may round equal values to different last bits.
    """
    with torch.no_grad():
        if classes is not None:
            # The negative difference closest to 0 has the smallest reciprocal; 1 / 0 is inf.
            inverse = (log_probs - log_probs.gather(1, classes)).reciprocal()
            least, next_class = inverse.min(1, keepdim=True)
            exists = least < 0
        else:  # the same for each class, by sorting instead of comparing all pairs
            ascending, order = log_probs.sort(1)
            rank = torch.searchsorted(ascending, log_probs) - 1
            next_class, exists = order.gather(1, rank.clamp_min(0)), rank >= 0
    return log_probs.gather(1, next_class).exp() * exists
