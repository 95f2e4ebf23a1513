"""Maximum mean calibration error."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Final

import torch.nn.functional as F
from torch import Tensor

from trainables.losses.base import CalibrationLoss, Extra
from trainables.plugins.arguments import Range

_KERNEL_WIDTH: Final = 0.4


@dataclass(eq=False, repr=False)
class MaximumMeanCalibration(CalibrationLoss):
    """Cross-entropy + λ · maximum mean calibration error (MMCE) of the batch.

    c is the confidence max_k p_k, and r is 1 if the prediction is correct, else 0. As in the
    authors' code, the sum includes i = j, and there is no square root. Gradients flow through c in
    the kernel and in c − r. Takes O(N²) time and memory.

    Args:
        lam: Weight λ of the MMCE.
    """

    source: ClassVar[str] = "Kumar et al. 2018, eq. 3"
    formula: ClassVar[str] = "−log p_y + λ n⁻² Σ_ij (c_i−r_i)(c_j−r_j) exp(−|c_i−c_j|/0.4)"

    lam: Annotated[float, Range(0, 1000)] = 2.0

    def compute(self, logits: Tensor, targets: Tensor, indices: Extra, features: Extra) -> Tensor:
        log_probs = logits.log_softmax(1)
        log_confidence, predicted = log_probs.max(1)
        confidence = log_confidence.exp()
        residual = confidence - (predicted == targets).to(logits.dtype)
        kernel = ((confidence.unsqueeze(1) - confidence).abs() / -_KERNEL_WIDTH).exp()
        penalty = residual @ kernel @ residual / len(targets) ** 2
        return F.nll_loss(log_probs, targets) + self.lam * penalty
