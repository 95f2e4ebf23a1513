"""Focal calibration loss: focal loss plus the Brier score."""

from typing import ClassVar

from torch import Tensor

from trainables.losses.base import PerSampleLoss, of_classes
from trainables.losses.brier import squared_error
from trainables.losses.focal import one_minus_p
from trainables.plugins.arguments import Bounds


class FocalCalibration(PerSampleLoss):
    """FCL: focal loss + λ · Brier score, the squared error summed over classes.

    Args:
        gamma: Exponent γ of the focal loss.
        lam: Weight λ of the Brier score; 0 gives focal loss.
    """

    source: ClassVar[str] = "Liang et al. 2024 (FCL), eq. 10-12"
    formula: ClassVar[str] = "−(1−p_y)^γ log p_y + λ ‖p − onehot(y)‖²"
    bounds: ClassVar = {"gamma": Bounds(0, 100), "lam": Bounds(0, 1000)}

    def __init__(self, num_classes: int, gamma: float = 3.0, lam: float = 0.5) -> None:
        super().__init__(num_classes)
        self.gamma = self.check("gamma", gamma)
        self.lam = self.check("lam", lam)

    def class_terms(self, logits: Tensor, classes: Tensor | None) -> Tensor:
        log_probs = logits.log_softmax(1)
        log_p = of_classes(log_probs, classes)
        focal = -(one_minus_p(log_p) ** self.gamma) * log_p
        return focal + self.lam * squared_error(log_probs.exp(), classes)
