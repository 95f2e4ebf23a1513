"""Custom losses with a learnable parameter."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from trainables.losses import CalibrationLoss


class LearntPlain(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.log_scale = nn.Parameter(torch.zeros(()))

    def forward(self, logits: Tensor, targets: Tensor) -> Tensor:
        return F.cross_entropy(logits * self.log_scale.exp(), targets)


class Learnt(CalibrationLoss):
    looks_across_batch = False

    def __init__(self, num_classes: int) -> None:
        super().__init__(num_classes)
        self.log_scale = nn.Parameter(torch.zeros(()))

    def compute(
        self, logits: Tensor, targets: Tensor, indices: Tensor | None, features: Tensor | None
    ) -> Tensor:
        return F.cross_entropy(logits * self.log_scale.exp(), targets)
