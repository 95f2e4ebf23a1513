"""Focal calibration loss: focal loss plus the Brier score."""

from typing import ClassVar

from torch import Tensor

from trainables.losses.base import PerSampleLoss, of_classes
from trainables.losses.brier import squared_error
from trainables.losses.focal import one_minus_p
from trainables.plugins.arguments import Range, check_integer


class FocalCalibration(PerSampleLoss):
    """FCL: focal loss + λ · Brier score, the squared error summed over classes.

    Args:
        gamma: Exponent γ of the focal loss.
        lam: Weight λ of the error; 0 gives focal loss.
        p: 1 for the absolute error Σ_k |p_k − onehot(y)_k| of the authors' ablation, A.15, else 2.
    """

    source: ClassVar[str] = "Liang et al. 2024 (FCL), eq. 10-12, A.15"
    formula: ClassVar[str] = "−(1−p_y)^γ log p_y + λ Σ_k |p_k − onehot(y)_k|^p"
    bounds: ClassVar = {"gamma": Range(0, 100), "lam": Range(0, 1000)}

    def __init__(self, num_classes: int, gamma: float = 3.0, lam: float = 0.5, p: int = 2) -> None:
        super().__init__(num_classes)
        self.p = check_integer("p", p, low=1)
        if self.p > 2:
            raise ValueError(f"p must be 1 or 2, got {p}")
        self.gamma = self.check("gamma", gamma)
        self.lam = self.check("lam", lam)

    def class_terms(self, logits: Tensor, classes: Tensor | None) -> Tensor:
        log_probs = logits.log_softmax(1)
        log_p = of_classes(log_probs, classes)
        focal = -(one_minus_p(log_p) ** self.gamma) * log_p
        if self.p == 1:
            return focal + self.lam * 2 * one_minus_p(log_p)  # Σ_k |p_k − onehot(y)_k|
        return focal + self.lam * squared_error(log_probs.exp(), classes)
