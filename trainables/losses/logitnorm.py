"""Logit normalisation."""

from typing import ClassVar, Final

import torch
from torch import Tensor

from trainables.checks import check_number
from trainables.losses.closed_form import ClosedFormLoss, cross_entropy_and_gradient

_EPSILON: Final = 1e-7


class LogitNorm(ClosedFormLoss):
    """Cross-entropy of logits of unit length, divided by a temperature.

    Args:
        num_classes: Number K of classes.
        temperature: τ > 0.
    """

    source: ClassVar[str] = "Wei et al. 2022, eq. 5"
    formula: ClassVar[str] = "−log softmax(z / (τ(‖z‖ + 1e-7)))_y"
    looks_across_batch: ClassVar[bool] = False

    def __init__(self, num_classes: int, temperature: float = 0.04) -> None:
        super().__init__(num_classes)
        self.temperature = check_number("temperature", temperature, low=0, open_low=True)

    def value_and_gradient(self, logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        norm = torch.linalg.vector_norm(logits, dim=1, keepdim=True)
        scale = (norm + _EPSILON).mul_(self.temperature)
        scaled = logits / scale
        value, gradient, _ = cross_entropy_and_gradient(scaled.log_softmax(1), targets)
        # ∂scaled_k/∂z_j = (δ_jk − scaled_k τ z_j / ‖z‖) / scale; z / ‖z‖ is 0 at z = 0.
        along = (gradient * scaled).sum(1, keepdim=True)
        direction = logits / norm.clamp_min_(torch.finfo(norm.dtype).tiny)
        gradient.addcmul_(direction, along, value=-self.temperature)
        return value, gradient.div_(scale)
