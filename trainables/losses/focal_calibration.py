"""Focal calibration loss: focal loss plus the Brier score."""

from typing import ClassVar

from torch import Tensor

from trainables.checks import check_number
from trainables.losses.closed_form import ClosedFormLoss
from trainables.losses.focal import focal_terms


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
        count, classes = len(logits), targets.unsqueeze(1)
        log_probs = logits.log_softmax(1)
        log_p = log_probs.gather(1, classes)
        terms, slopes = focal_terms(log_p, self.gamma)
        probs = log_probs.exp_()
        residual = probs.scatter_add(1, classes, log_p.new_full((1, 1), -1.0).expand(count, 1))
        brier = residual.square().sum(1, keepdim=True)
        # The Brier score's derivative by z_j is 2 p_j (r_j − Σ_k p_k r_k), r the residual.
        scale = 2 * self.lam / count
        slopes = slopes / count
        inner = (probs * residual).sum(1, keepdim=True)
        gradient = probs * residual.sub_(inner).mul_(scale).sub_(slopes)
        gradient.scatter_add_(1, classes, slopes)
        return (terms + self.lam * brier).mean(), gradient
