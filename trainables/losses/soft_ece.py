"""Soft-binned calibration error."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Final

import torch
import torch.nn.functional as F
from torch import Tensor

from trainables.losses.base import CalibrationLoss, Extra
from trainables.plugins.arguments import Range

BINS: Final = 15


@dataclass(eq=False, repr=False)
class SoftBinnedCalibration(CalibrationLoss):
    """Cross-entropy + λ · soft-binned ECE (SB-ECE) of the batch, with the L2 norm.

    c is the confidence max_k p_k, and r is 1 if the prediction is correct, else 0. Sample i belongs
    to bin j of 15, with centre ξ_j, by the share u_ij. Bin j has the weight S_j = Σ_i u_ij / N, and
    C_j and A_j are the means of c and r with the weights u_ij. Gradients flow through c and u.

    Args:
        lam: Weight λ of the error.
        temperature: Temperature τ of the shares; they become hard bins as it approaches 0.
    """

    source: ClassVar[str] = "Karandikar et al. 2021, eq. 11"
    formula: ClassVar[str] = (
        "−log p_y + λ (Σ_j S_j (A_j−C_j)²)^½, shares u_ij = softmax_j(−(c_i−ξ_j)²/τ)"
    )

    lam: Annotated[float, Range(0, 1000)] = 1.0
    temperature: Annotated[float, Range(1e-6, 100)] = 0.01

    def compute(self, logits: Tensor, targets: Tensor, indices: Extra, features: Extra) -> Tensor:
        log_probs = logits.log_softmax(1)
        log_confidence, predicted = log_probs.max(1)
        confidence = log_confidence.exp()
        correct = (predicted == targets).to(logits.dtype)
        centres = (torch.arange(BINS, dtype=logits.dtype, device=logits.device) + 0.5) / BINS
        distance = confidence.unsqueeze(1) - centres
        shares = (-distance.square() / self.temperature).softmax(1)
        tiny = torch.finfo(logits.dtype).tiny
        # S_j (A_j − C_j)² = (Σ_i u_ij (r_i − c_i))² / (N Σ_i u_ij)
        gaps = shares.T @ (correct - confidence)
        squared = (gaps.square() / shares.sum(0).clamp_min(tiny)).sum() / len(targets)
        error = squared.clamp_min(tiny).sqrt()  # the derivative of the root at 0 is infinite
        return F.nll_loss(log_probs, targets) + self.lam * error
