"""Differentiable expected calibration error."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Final

import torch
import torch.nn.functional as F
from torch import Tensor

from trainables.losses.base import Extra
from trainables.losses.soft_ece import BINS, SoftBinnedCalibration
from trainables.plugins.arguments import Range

_SHARPNESS: Final = 100.0


@dataclass(eq=False, repr=False)
class DifferentiableCalibration(SoftBinnedCalibration):
    """Cross-entropy + λ · DECE of the batch, the meta-objective of Bohdal et al.

    c is the confidence max_k p_k, and a is a soft accuracy: 2 less the soft rank of the true class,
    at least 0. Sample i belongs to bin j of 15 by the share u_ij, softmax over j of
    (j c_i − Σ_{m<j} m/15) / τ. Gradients flow through a, c and u. The paper learns the smoothing of
    labels from this objective, by unrolled steps on a validation batch; here it is the loss itself.

    Args:
        lam: Weight λ of the error; 0.5 in the paper.
        temperature: Temperature τ of the shares; they become hard bins as it approaches 0.
    """

    source: ClassVar[str] = "Bohdal et al. 2023, eq. 2-4 and their code"
    formula: ClassVar[str] = (
        "−log p_y + λ/N Σ_j |Σ_i u_ij (a_i−c_i)|, a = max(0, 1 − Σ_k≠y σ(100 (p_k−p_y)))"
    )

    lam: Annotated[float, Range(0, 1000)] = 0.5

    def compute(self, logits: Tensor, targets: Tensor, indices: Extra, features: Extra) -> Tensor:
        log_probs = logits.log_softmax(1)
        probs = log_probs.exp()
        confidence = probs.amax(1)
        above = (_SHARPNESS * (probs - probs.gather(1, targets[:, None]))).sigmoid()
        accuracy = F.relu(1.5 - above.sum(1))  # σ(0) = ½ of the true class itself
        number = torch.arange(BINS, dtype=logits.dtype, device=logits.device)
        places = (number + 1) * confidence[:, None] - number.cumsum(0) / BINS
        shares = (places / self.temperature).softmax(1)
        error = (shares.T @ (accuracy - confidence)).abs().sum() / len(targets)
        return F.nll_loss(log_probs, targets) + self.lam * error
