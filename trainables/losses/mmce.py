"""Maximum mean calibration error."""

from typing import ClassVar, Final

import torch
from torch import Tensor

from trainables.checks import check_number
from trainables.losses.closed_form import ClosedFormLoss, pull_back

_KERNEL_WIDTH: Final = 0.4


class MaximumMeanCalibration(ClosedFormLoss):
    """Cross-entropy + λ · MMCE of the batch.

    As the authors' code: all pairs including i = j, no square root. Gradients flow through
    confidences, in kernel and residual; correctness r is a constant. Takes O(n²) memory and time.

    Args:
        num_classes: Number K of classes.
        lam: Weight λ >= 0.
    """

    source: ClassVar[str] = "Kumar et al. 2018, eq. 3"
    formula: ClassVar[str] = "−log p_y + λ n⁻² Σ_ij (c_i−r_i)(c_j−r_j) exp(−|c_i−c_j|/0.4)"

    def __init__(self, num_classes: int, lam: float = 2.0) -> None:
        super().__init__(num_classes)
        self.lam = check_number("lam", lam, low=0)

    def value_and_gradient(self, logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        log_probs, classes = logits.log_softmax(1), targets.unsqueeze(1)
        log_p = log_probs.gather(1, classes)
        log_confidence, predicted = log_probs.max(1, keepdim=True)
        confidence = log_confidence.exp_()
        residual = confidence - (predicted == classes).to(confidence.dtype)
        difference = confidence.T - confidence
        kernel = difference.abs().mul_(-1 / _KERNEL_WIDTH).exp_()
        smoothed = kernel @ residual
        # ∂k_ij/∂c_i = k_ij sign(c_j − c_i) / width; each pair is met twice.
        by_kernel = difference.sign_().mul_(kernel) @ residual
        weight = self.lam / len(logits)
        total = weight * (residual * smoothed).sum() - log_p.sum()
        by_log = smoothed.addcmul_(residual, by_kernel, value=1 / _KERNEL_WIDTH)
        by_log.mul_(confidence).mul_(2 * weight)
        gradient = pull_back(
            log_probs.exp_(), (classes, torch.full_like(log_p, -1)), (predicted, by_log)
        )
        return total / len(logits), gradient
