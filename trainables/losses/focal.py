"""Focal losses: cross-entropy weighted by a function of the true-class probability."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
from torch import Tensor

from trainables.losses.base import PerSampleLoss, of_classes
from trainables.plugins.arguments import Range


def one_minus_p(log_p: Tensor) -> Tensor:
    """1 − p from log p, accurate for p near 1, and positive even at p = 1.

    At exactly 0, autograd returns NaN or infinity for powers with an exponent below 1.
    """
    return (-log_p.expm1()).clamp_min(torch.finfo(log_p.dtype).tiny)


@dataclass(eq=False, repr=False)
class Focal(PerSampleLoss):
    """Focal loss; the gradient flows through the weight (1−p_y)^γ.

    The loss is the mean over samples; the authors' calibration code uses the sum.

    Args:
        gamma: Exponent γ; 0 gives cross-entropy.
    """

    source: ClassVar[str] = "Lin et al. 2017, eq. 4; Mukhoti et al. 2020, eq. 1"
    formula: ClassVar[str] = "−(1−p_y)^γ log p_y"

    gamma: Annotated[float, Range(0, 100)] = 3.0

    def class_terms(self, logits: Tensor, classes: Tensor | None) -> Tensor:
        log_p = of_classes(logits.log_softmax(1), classes)
        return -(one_minus_p(log_p) ** self.gamma) * log_p


class FocalSampleDependent(PerSampleLoss):
    """FLSD-53: focal loss with γ = 5 for p_y < 0.2, and γ = 3 otherwise.

    The gradient flows through the weight and treats γ as a constant.
    """

    source: ClassVar[str] = "Mukhoti et al. 2020, section 4"
    formula: ClassVar[str] = "−(1−p_y)^γ log p_y, γ = 5 if p_y < 0.2 else 3"

    def class_terms(self, logits: Tensor, classes: Tensor | None) -> Tensor:
        log_p = of_classes(logits.log_softmax(1), classes)
        gamma = 3 + 2 * (log_p.detach().exp() < 0.2).to(log_p.dtype)
        return -(one_minus_p(log_p) ** gamma) * log_p


@dataclass(eq=False, repr=False)
class InverseFocal(PerSampleLoss):
    """Inverse focal loss; the gradient flows through the weight (1+p_y)^γ.

    For γ above about 3.6, the gradient changes sign for some p_y: there, the loss lowers the
    probability of the true class.

    Args:
        gamma: Exponent γ; 0 gives cross-entropy.
    """

    source: ClassVar[str] = "Wang et al. 2021, eq. 6; Zhou et al. (r-AURC), eq. 3"
    formula: ClassVar[str] = "−(1+p_y)^γ log p_y"

    gamma: Annotated[float, Range(0, 100)] = 2.0

    def class_terms(self, logits: Tensor, classes: Tensor | None) -> Tensor:
        log_p = of_classes(logits.log_softmax(1), classes)
        return -((1 + log_p.exp()) ** self.gamma) * log_p
