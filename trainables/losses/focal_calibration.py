"""Focal calibration loss: focal loss plus the Brier score."""

from typing import ClassVar

from torch import Tensor

from trainables.arguments import check_number
from trainables.losses.brier import squared_error_of_each, squared_error_terms
from trainables.losses.closed_form import ClosedFormLoss, log_softmax
from trainables.losses.focal import one_minus_each, one_minus_p, power_term_of_each, power_terms


class FocalCalibration(ClosedFormLoss):
    """Focal loss + λ · squared distance of p to the one-hot label, summed over classes.

    Args:
        num_classes: Number K of classes.
        gamma: Exponent γ in [0, 100] of the focal loss.
        lam: Weight λ in [0, 1000] of the Brier score; 0 is focal loss.
    """

    source: ClassVar[str] = "Liang et al. 2024 (FCL), eq. 10-12"
    formula: ClassVar[str] = "−(1−p_y)^γ log p_y + λ ‖p − onehot(y)‖²"
    looks_across_batch: ClassVar[bool] = False
    soft_targets: ClassVar[bool] = True
    several_labels: ClassVar[bool] = True
    each_pixel: ClassVar[bool] = True

    def __init__(self, num_classes: int, gamma: float = 3.0, lam: float = 0.5) -> None:
        super().__init__(num_classes)
        self.gamma = check_number("gamma", gamma, 0, 100)
        self.lam = check_number("lam", lam, 0, 1000)

    def value_and_gradient(self, logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        log_probs, classes = log_softmax(logits), targets.unsqueeze(1)
        log_p = log_probs.gather(1, classes)
        value, by_log_p = power_terms(log_p, one_minus_p(log_p), self.gamma)
        probs, p = log_probs.exp_(), log_p.exp()
        errors, inner = squared_error_terms(probs, p)
        value.add_(errors.mean(), alpha=self.lam)
        # Both parts are p_j times something, and something more at the true class.
        weight = 2 * self.lam / len(logits)
        inner.mul_(weight).add_(by_log_p)
        gradient = (probs * weight).sub_(inner).mul_(probs)
        return value, gradient.scatter_add_(1, classes, by_log_p.sub_(p, alpha=weight))

    def class_terms(self, logits: Tensor) -> Tensor:
        log_probs = logits.log_softmax(1)
        focal = power_term_of_each(log_probs, one_minus_each(log_probs), self.gamma)
        return focal + self.lam * squared_error_of_each(log_probs.exp())
