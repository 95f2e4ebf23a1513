"""Logit normalisation."""

from typing import ClassVar, Final

import torch
from torch import Tensor

from trainables.arguments import check_number
from trainables.losses.closed_form import ClosedFormLoss, log_softmax

_EPSILON: Final = 1e-7


class LogitNorm(ClosedFormLoss):
    """Cross-entropy of logits of unit length, divided by a temperature.

    Args:
        num_classes: Number K of classes.
        temperature: τ in [1e-4, 100].
    """

    source: ClassVar[str] = "Wei et al. 2022, eq. 5"
    formula: ClassVar[str] = "−log softmax(z / (τ(‖z‖ + 1e-7)))_y"
    looks_across_batch: ClassVar[bool] = False
    soft_targets: ClassVar[bool] = True
    each_pixel: ClassVar[bool] = True

    def __init__(self, num_classes: int, temperature: float = 0.04) -> None:
        super().__init__(num_classes)
        self.temperature = check_number("temperature", temperature, 1e-4, 100)

    def value_and_gradient(self, logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        classes = targets.unsqueeze(1)
        norm = torch.linalg.vector_norm(logits, dim=1, keepdim=True)
        scale = (norm + _EPSILON).mul_(self.temperature).reciprocal_()
        scaled = logits * scale
        log_probs = log_softmax(scaled)
        log_p = log_probs.gather(1, classes)
        true = scaled.gather(1, classes)
        gradient = log_probs.exp_()
        # With g the derivative by the scaled logits u, that by z_j is scale·g_j − along·z_j; the
        # second part comes from the norm, whose derivative is z / ‖z‖, 0 at z = 0.
        along = scaled.mul_(gradient).sum(1, keepdim=True).sub_(true)
        along.mul_(scale).mul_(self.temperature)
        along.div_(norm.clamp_min_(torch.finfo(norm.dtype).tiny))
        scale.mul_(1 / len(logits))
        gradient.mul_(scale).addcmul_(logits, along, value=-1 / len(logits))
        return log_p.mean().neg_(), gradient.scatter_add_(1, classes, scale.neg_())

    def class_terms(self, logits: Tensor) -> Tensor:
        norm = torch.linalg.vector_norm(logits, dim=1, keepdim=True)
        scaled: Tensor = logits / (self.temperature * (norm + _EPSILON))
        return -scaled.log_softmax(1)
