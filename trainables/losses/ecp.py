"""Explicit confidence penalty."""

from typing import ClassVar

from torch import Tensor

from trainables.arguments import check_number
from trainables.losses.closed_form import ClosedFormLoss, log_softmax


class ConfidencePenalty(ClosedFormLoss):
    """Cross-entropy − λ · entropy of p.

    The entropy is the sum over classes, as in the paper; the CALS code divides it by K.

    Args:
        num_classes: Number K of classes.
        lam: Weight λ in [0, 1000].
    """

    source: ClassVar[str] = "Pereyra et al. 2017, section 3"
    formula: ClassVar[str] = "−log p_y − λ H(p)"
    looks_across_batch: ClassVar[bool] = False
    soft_targets: ClassVar[bool] = True
    several_labels: ClassVar[bool] = True
    each_pixel: ClassVar[bool] = True

    def __init__(self, num_classes: int, lam: float = 0.1) -> None:
        super().__init__(num_classes)
        self.lam = check_number("lam", lam, 0, 1000)

    def value_and_gradient(self, logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        log_probs, classes = log_softmax(logits), targets.unsqueeze(1)
        log_p = log_probs.gather(1, classes)
        probs = log_probs.exp()
        gradient = log_probs.mul_(probs)
        negative_entropy = gradient.sum(1, keepdim=True)
        # Derivative of Σ p log p by z_j: p_j (log p_j − Σ p log p).
        share, weight = 1 / len(logits), self.lam / len(logits)
        penalty = negative_entropy.mul_(weight)
        value = penalty.sum().sub_(log_p.sum(), alpha=share)
        gradient.mul_(weight).addcmul_(probs, share - penalty)
        return value, gradient.scatter_add_(1, classes, log_p.fill_(-share))

    def class_terms(self, logits: Tensor) -> Tensor:
        log_probs = logits.log_softmax(1)
        negative_entropy = (log_probs.exp() * log_probs).sum(1, keepdim=True)
        return self.lam * negative_entropy - log_probs
