"""Cross-entropy plus a kernel density estimate of the canonical calibration error."""

from typing import ClassVar, Final

import torch
import torch.nn.functional as F
from torch import Tensor

from trainables.losses.base import CalibrationLoss, Extra
from trainables.metrics.kernel_density import most_likely_bandwidth
from trainables.plugins.arguments import Range, check_integer

_WIDTHS: Final = (0.001, 0.5)
"""Range of the authors; with much smaller widths, float32 cannot distinguish the kernels."""


class KernelCalibration(CalibrationLoss):
    """KDE-XE: cross-entropy + λ · canonical calibration error, by Dirichlet kernel density.

    E[y | p_i] is estimated from the other samples of the batch, weighted by a Dirichlet kernel
    centred at each of them. The error is Σ_k |E[y_k | p_i] − p_ik|^p, without a root. Classes may
    be absent from the batch. A batch of one sample has no penalty.

    Args:
        lam: Weight λ; r-AURC uses 0.3 on CIFAR-10 and 0.5 on CIFAR-100.
        bandwidth: Bandwidth h of the kernel, or ``likelihood``: it starts at 0.02, and after each
            epoch it maximises the leave-one-out likelihood of the validation predictions, clipped
            to [0.001, 0.5].
        p: Exponent of the error, 1 or 2.

    Attributes:
        width: Buffer (), the current bandwidth.
    """

    source: ClassVar[str] = "Popordanoska et al. 2022, eq. 9-10"
    formula: ClassVar[str] = (
        "−log p_y + λ Σ_k |Σ_j≠i w_ij 1[y_j=k] − p_ik|^p, w_ij ∝ Dir(p_i; p_j/h+1)"
    )
    bounds: ClassVar = {"lam": Range(0, 1000), "bandwidth": Range(1e-5, 1)}
    width: Tensor

    def __init__(
        self, num_classes: int, lam: float = 0.3, bandwidth: float | str = 0.02, p: int = 1
    ) -> None:
        super().__init__(num_classes)
        self.lam = self.check("lam", lam)
        self.adapts = bandwidth == "likelihood"
        if isinstance(bandwidth, str) and not self.adapts:
            allowed = self.bounds["bandwidth"].interval
            raise ValueError(
                f"bandwidth must be likelihood or a number in {allowed}, got {bandwidth!r}"
            )
        width = 0.02 if isinstance(bandwidth, str) else self.check("bandwidth", bandwidth)
        self.register_buffer("width", torch.tensor(width, dtype=torch.float64))
        self.p = check_integer("p", p, low=1)
        if self.p > 2:
            raise ValueError(f"p must be 1 or 2, got {p}")

    def compute(self, logits: Tensor, targets: Tensor, indices: Extra, features: Extra) -> Tensor:
        log_probs = logits.log_softmax(1)
        cross_entropy = F.nll_loss(log_probs, targets)
        if len(logits) == 1 or self.lam == 0:
            return cross_entropy
        probs = log_probs.exp()
        centres = probs / self.width
        # log Dir(p_i; p_j/h + 1), without Γ(Σ_k ...), which is the same for all j.
        log_kernel = log_probs @ centres.T - torch.lgamma(centres + 1).sum(1)
        itself = torch.eye(len(logits), dtype=torch.bool, device=logits.device)
        weights = log_kernel.masked_fill(itself, -torch.inf).softmax(1)
        gaps = _sum_by_class(weights, targets, self.num_classes) - probs
        return cross_entropy + self.lam * gaps.abs().pow(self.p).sum(1).mean()

    @torch.no_grad()
    def on_validation_end(self, val_logits: Tensor, val_targets: Tensor) -> None:
        """Selects the bandwidth if ``bandwidth`` is ``likelihood``."""
        if self.adapts and len(val_logits) > 1:
            self.width.fill_(most_likely_bandwidth(val_logits.double().softmax(1)))
            self.width.clamp_(*_WIDTHS)


def _sum_by_class(weights: Tensor, targets: Tensor, num_classes: int) -> Tensor:
    """Σ_j w_ij 1[y_j=k], (N, K), for weights w (N, N)."""
    if weights.is_cuda:  # index_add is nondeterministic on CUDA
        return weights @ F.one_hot(targets, num_classes).to(weights.dtype)
    return weights.new_zeros(len(weights), num_classes).index_add(1, targets, weights)
