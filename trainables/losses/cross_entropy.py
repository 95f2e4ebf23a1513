"""Cross-entropy, plain and smoothed."""

from typing import ClassVar

import torch.nn.functional as F
from torch import Tensor

from trainables.arguments import check_number
from trainables.losses.base import CalibrationLoss
from trainables.losses.closed_form import ClosedFormLoss, log_softmax


class CrossEntropy(CalibrationLoss):
    """Negative log-likelihood of the true class."""

    source: ClassVar[str] = "the baseline of all papers"
    formula: ClassVar[str] = "−log p_y"
    looks_across_batch: ClassVar[bool] = False
    soft_targets: ClassVar[bool] = True
    several_labels: ClassVar[bool] = True
    each_pixel: ClassVar[bool] = True

    def compute(
        self, logits: Tensor, targets: Tensor, indices: Tensor | None, features: Tensor | None
    ) -> Tensor:
        if targets.is_floating_point():
            targets = targets.to(logits.dtype)
        return F.cross_entropy(logits, targets)


class LabelSmoothing(ClosedFormLoss):
    """Cross-entropy against the mixture (1−α)·onehot(y) + α/K.

    As in PyTorch and the CALS code; the MDCA code spreads α over the wrong classes only.

    Args:
        num_classes: Number K of classes.
        alpha: Weight α of the uniform distribution, in [0, 1].
    """

    source: ClassVar[str] = "Szegedy et al. 2016, section 7"
    formula: ClassVar[str] = "−Σ_k ((1−α)·1[k=y] + α/K) log p_k"
    looks_across_batch: ClassVar[bool] = False
    soft_targets: ClassVar[bool] = True
    several_labels: ClassVar[bool] = True
    each_pixel: ClassVar[bool] = True

    def __init__(self, num_classes: int, alpha: float = 0.05) -> None:
        super().__init__(num_classes)
        self.alpha = check_number("alpha", alpha, 0, 1)

    def value_and_gradient(self, logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        log_probs, classes = log_softmax(logits), targets.unsqueeze(1)
        log_p = log_probs.gather(1, classes)
        true, share = (1 - self.alpha) / len(logits), self.alpha / logits.numel()
        value = log_p.sum().mul_(-true).sub_(log_probs.sum(), alpha=share)
        gradient = log_probs.exp_().mul_(1 / len(logits)).sub_(share)
        return value, gradient.scatter_add_(1, classes, log_p.fill_(-true))

    def class_terms(self, logits: Tensor) -> Tensor:
        log_probs = logits.log_softmax(1)
        return (self.alpha - 1) * log_probs - self.alpha * log_probs.mean(1, keepdim=True)
