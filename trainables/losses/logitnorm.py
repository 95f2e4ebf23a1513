"""Logit normalisation."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Final

import torch
from torch import Tensor

from trainables.losses.base import PerSampleLoss, of_classes
from trainables.plugins.arguments import Range

_EPSILON: Final = 1e-7


@dataclass(eq=False, repr=False)
class LogitNorm(PerSampleLoss):
    """LogitNorm: cross-entropy of logits normalised to unit length and divided by a temperature.

    Args:
        temperature: Temperature τ.
    """

    source: ClassVar[str] = "Wei et al. 2022, eq. 5"
    formula: ClassVar[str] = "−log softmax(z / (τ(‖z‖ + 1e-7)))_y"
    several_labels: ClassVar[bool] = False

    temperature: Annotated[float, Range(1e-4, 100)] = 0.04

    def class_terms(self, logits: Tensor, classes: Tensor | None) -> Tensor:
        norm = torch.linalg.vector_norm(logits, dim=1, keepdim=True)
        scale = 1 / (self.temperature * (norm + _EPSILON))
        return -of_classes((logits * scale).log_softmax(1), classes)
