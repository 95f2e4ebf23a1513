"""Multi-class difference in confidence and accuracy."""

from typing import ClassVar

import torch
from torch import Tensor

from trainables.checks import check_number
from trainables.losses.closed_form import ClosedFormLoss, softmax_pullback
from trainables.losses.focal import focal_terms, mean_and_gradient


class ClasswiseDifference(ClosedFormLoss):
    """Focal loss + β · mean over classes of |mean p_k − share of class k| in the batch.

    All K classes count, also those absent from the batch.

    Args:
        num_classes: Number K of classes.
        gamma: Exponent γ >= 0 of the focal loss; 0 is cross-entropy.
        beta: Weight β >= 0.
    """

    source: ClassVar[str] = "Hebbalaguppe et al. 2022, eq. 4-5"
    formula: ClassVar[str] = "−(1−p_y)^γ log p_y + β/K Σ_k |mean_i p_ik − mean_i 1[y_i=k]|"

    def __init__(self, num_classes: int, gamma: float = 1.0, beta: float = 1.0) -> None:
        super().__init__(num_classes)
        self.gamma = check_number("gamma", gamma, low=0)
        self.beta = check_number("beta", beta, low=0)

    def value_and_gradient(self, logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        log_probs = logits.log_softmax(1)
        probs = log_probs.exp()
        terms, slopes = focal_terms(log_probs.gather(1, targets.unsqueeze(1)), self.gamma)
        focal, gradient = mean_and_gradient(log_probs, targets, terms, slopes)
        weight = self.beta / (self.num_classes * len(logits))
        difference = probs.sum(0)
        difference.scatter_add_(0, targets, difference.new_full((1,), -1.0).expand(len(targets)))
        gradient.add_(softmax_pullback(probs, torch.sign(difference)), alpha=weight)
        return focal + weight * difference.abs().sum(), gradient
