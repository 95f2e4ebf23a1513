"""Focal calibration loss: focal loss plus the Brier score."""

from typing import ClassVar

from torch import Tensor

from trainables.checks import check_number
from trainables.losses.brier import brier_and_gradient
from trainables.losses.closed_form import ClosedFormLoss
from trainables.losses.focal import focal_terms, mean_and_gradient


class FocalCalibration(ClosedFormLoss):
    """Focal loss + λ · squared distance of p to the one-hot label, summed over classes.

    Args:
        num_classes: Number K of classes.
        gamma: Exponent γ >= 0 of the focal loss.
        lam: Weight λ >= 0 of the Brier score; 0 is focal loss.
    """

    source: ClassVar[str] = "Liang et al. 2024 (FCL), eq. 10-12"
    formula: ClassVar[str] = "−(1−p_y)^γ log p_y + λ ‖p − onehot(y)‖²"
    looks_across_batch: ClassVar[bool] = False

    def __init__(self, num_classes: int, gamma: float = 3.0, lam: float = 0.5) -> None:
        super().__init__(num_classes)
        self.gamma = check_number("gamma", gamma, low=0)
        self.lam = check_number("lam", lam, low=0)

    def value_and_gradient(self, logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        log_probs = logits.log_softmax(1)
        brier, by_brier = brier_and_gradient(log_probs.exp(), targets)
        terms, slopes = focal_terms(log_probs.gather(1, targets.unsqueeze(1)), self.gamma)
        focal, gradient = mean_and_gradient(log_probs, targets, terms, slopes)
        return focal + self.lam * brier, gradient.add_(by_brier, alpha=self.lam)
