"""Maximum mean calibration error."""

from typing import ClassVar, Final

from torch import Tensor

from trainables.arguments import check_number
from trainables.losses.closed_form import ClosedFormLoss, log_softmax, pull_back

_KERNEL_WIDTH: Final = 0.4


class MaximumMeanCalibration(ClosedFormLoss):
    """Cross-entropy + λ · MMCE of the batch.

    As the authors' code: all pairs including i = j, no square root. Gradients flow through
    confidences, in kernel and residual; correctness r is a constant. Takes O(n²) memory and time.

    Args:
        num_classes: Number K of classes.
        lam: Weight λ in [0, 1000].
    """

    source: ClassVar[str] = "Kumar et al. 2018, eq. 3"
    formula: ClassVar[str] = "−log p_y + λ n⁻² Σ_ij (c_i−r_i)(c_j−r_j) exp(−|c_i−c_j|/0.4)"

    def __init__(self, num_classes: int, lam: float = 2.0) -> None:
        super().__init__(num_classes)
        self.lam = check_number("lam", lam, 0, 1000)

    def value_and_gradient(self, logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        log_probs, classes = log_softmax(logits), targets.unsqueeze(1)
        log_p = log_probs.gather(1, classes)
        log_confidence, predicted = log_probs.max(1, keepdim=True)
        confidence = log_confidence.exp_()
        residual = confidence - (predicted == classes).to(confidence.dtype)
        difference = confidence.T - confidence
        kernel = difference.abs().mul_(-1 / _KERNEL_WIDTH).exp_()
        smoothed = kernel @ residual
        # ∂k_ij/∂c_i = k_ij sign(c_j − c_i) / width; each pair is met twice.
        by_kernel = difference.sign_().mul_(kernel) @ residual
        share, weight = 1 / len(logits), self.lam / len(logits) ** 2
        penalty = (residual * smoothed).sum()
        value = log_p.sum().mul_(-share).add_(penalty, alpha=weight)
        by_log = smoothed.addcmul_(residual, by_kernel, value=1 / _KERNEL_WIDTH)
        by_log.mul_(confidence).mul_(2 * weight)
        probs = log_probs.exp_()
        return value, pull_back(probs, (classes, log_p.fill_(-share)), (predicted, by_log))
