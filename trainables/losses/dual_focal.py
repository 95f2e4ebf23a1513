"""Dual focal loss."""

from typing import ClassVar, Final

import torch
from torch import Tensor

from trainables.losses.base import PerSampleLoss, of_classes
from trainables.losses.focal import one_minus_p
from trainables.plugins.arguments import Range, check_choice

DUALS: Final = {
    "largest": (0, 1),
    "second": (1, 2),
    "third": (2, 3),
    "mean_2": (0, 2),
    "mean_3": (0, 3),
    "mean_all": (0, None),
}
"""Which of the probabilities below p_y, from the largest, are averaged to p_j: first, end."""


class DualFocal(PerSampleLoss):
    """Dual focal loss: focal loss that also uses p_j, the probability ranked just below p_y.

    p_j is the largest probability strictly below p_y, or 0 if there is none; it equals the second
    largest probability only if the prediction is correct. The gradient flows through p_y and p_j.
    The loss is the mean over samples; the authors' code uses the sum.

    Args:
        gamma: Exponent γ; 0 gives cross-entropy.
        dual: Which probability is p_j. ``largest`` is the loss as proposed. The others are the
            authors' ablation: ``second`` or ``third`` largest below p_y, ``mean_2``, ``mean_3`` or
            ``mean_all``, the mean of the 2 or 3 largest or of all below p_y, as far as they exist.
            A number is p_j itself, ``0.1`` or ``0.2`` in the ablation.
    """

    source: ClassVar[str] = "Tao et al. 2023, eq. 3, table 4"
    formula: ClassVar[str] = "−(1−p_y+p_j)^γ log p_y, p_j = max{p_i : p_i < p_y}"
    bounds: ClassVar = {"gamma": Range(0, 100), "dual": Range(0, 1)}

    def __init__(self, num_classes: int, gamma: float = 5.0, dual: float | str = "largest") -> None:
        super().__init__(num_classes)
        self.gamma = self.check("gamma", gamma)
        self.dual = (
            check_choice("dual", dual, DUALS) if isinstance(dual, str) else self.check("dual", dual)
        )

    def class_terms(self, logits: Tensor, classes: Tensor | None) -> Tensor:
        log_probs = logits.log_softmax(1)
        log_p, p_j = of_classes(log_probs, classes), self._p_j(log_probs, classes)
        return -((one_minus_p(log_p) + p_j) ** self.gamma) * log_p

    def _p_j(self, log_probs: Tensor, classes: Tensor | None) -> Tensor | float:
        if not isinstance(self.dual, str):
            return self.dual
        if self.dual == "largest":
            return next_below(log_probs, classes)
        return some_below(log_probs, classes, *DUALS[self.dual])


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


def some_below(log_probs: Tensor, classes: Tensor | None, first: int, end: int | None) -> Tensor:
    """Mean of the ``first`` to ``end`` largest probabilities strictly below that of a class.

    Those that do not exist are left out; 0 if there is none. Takes O(N·K²) memory without labels.
    """
    of_class = of_classes(log_probs, classes).unsqueeze(2)
    below = log_probs.unsqueeze(1) < of_class  # (N, 1 or K, K)
    probs = torch.where(below, log_probs.exp().unsqueeze(1), -1).sort(2, descending=True).values
    chosen = probs[:, :, first:end]
    exist = chosen >= 0
    return (chosen * exist).sum(2) / exist.sum(2).clamp_min(1)
