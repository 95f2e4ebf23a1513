"""Explicit confidence penalty."""

from typing import ClassVar

from torch import Tensor

from trainables.checks import check_number
from trainables.losses.closed_form import ClosedFormLoss, cross_entropy_and_gradient


class ConfidencePenalty(ClosedFormLoss):
    """Cross-entropy − λ · entropy of p.

    The entropy is the sum over classes, as in the paper; the CALS code divides it by K.

    Args:
        num_classes: Number K of classes.
        lam: Weight λ >= 0.
    """

    source: ClassVar[str] = "Pereyra et al. 2017, section 3"
    formula: ClassVar[str] = "−log p_y − λ H(p)"
    looks_across_batch: ClassVar[bool] = False

    def __init__(self, num_classes: int, lam: float = 0.1) -> None:
        super().__init__(num_classes)
        self.lam = check_number("lam", lam, low=0)

    def value_and_gradient(self, logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        log_probs = logits.log_softmax(1)
        value, gradient, probs = cross_entropy_and_gradient(log_probs, targets)
        by_class = probs * log_probs
        negative_entropy = by_class.sum(1, keepdim=True)
        # Derivative of Σ p log p by z_j: p_j (log p_j − Σ p log p).
        by_logits = by_class.addcmul_(probs, negative_entropy, value=-1)
        return (
            value + self.lam * negative_entropy.mean(),
            gradient.add_(by_logits, alpha=self.lam / len(logits)),
        )
