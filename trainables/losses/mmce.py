"""Maximum mean calibration error."""

from typing import ClassVar, Final

import torch.nn.functional as F
from torch import Tensor

from trainables.checks import check_number
from trainables.losses.base import CalibrationLoss

_KERNEL_WIDTH: Final = 0.4


class MaximumMeanCalibration(CalibrationLoss):
    """Cross-entropy + λ · MMCE of the batch.

    As the authors' code: all pairs including i = j, no square root. Gradients flow through
    confidences, in kernel and residual; correctness r is a constant.

    Args:
        num_classes: Number K of classes.
        lam: Weight λ >= 0.
    """

    source: ClassVar[str] = "Kumar et al. 2018, eq. 3"
    formula: ClassVar[str] = "−log p_y + λ n⁻² Σ_ij (c_i−r_i)(c_j−r_j) exp(−|c_i−c_j|/0.4)"

    def __init__(self, num_classes: int, lam: float = 2.0) -> None:
        super().__init__(num_classes)
        self.lam = check_number("lam", lam, low=0)

    def compute(
        self, logits: Tensor, targets: Tensor, indices: Tensor | None, features: Tensor | None
    ) -> Tensor:
        confidence, predicted = logits.softmax(1).max(1)
        residual = confidence - (predicted == targets).to(logits.dtype)
        kernel = (-(confidence.unsqueeze(0) - confidence.unsqueeze(1)).abs() / _KERNEL_WIDTH).exp()
        mmce = residual @ kernel @ residual / len(logits) ** 2
        return F.cross_entropy(logits, targets) + self.lam * mmce
