"""Maximum mean calibration error."""

from typing import ClassVar, Final

from torch import Tensor

from trainables.checks import check_number
from trainables.losses.closed_form import ClosedFormLoss, cross_entropy_and_gradient

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
        value, gradient, probs = cross_entropy_and_gradient(logits.log_softmax(1), targets)
        confidence, predicted = probs.max(1, keepdim=True)
        residual = confidence - (predicted == targets.unsqueeze(1)).to(confidence.dtype)
        difference = confidence.T - confidence
        kernel = difference.abs().mul_(-1 / _KERNEL_WIDTH).exp_()
        smoothed = kernel @ residual
        # ∂k_ij/∂c_i = k_ij sign(c_j − c_i) / width; each pair is met twice.
        by_kernel = difference.sign_().mul_(kernel) @ residual
        weight = self.lam / len(logits) ** 2
        by_confidence = smoothed.addcmul(residual, by_kernel, value=1 / _KERNEL_WIDTH)
        by_log = by_confidence.mul_(confidence).mul_(2 * weight)
        gradient.addcmul_(probs, by_log, value=-1).scatter_add_(1, predicted, by_log)
        return value + weight * (residual * smoothed).sum(), gradient
