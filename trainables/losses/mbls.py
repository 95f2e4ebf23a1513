"""Margin-based label smoothing."""

from typing import ClassVar

import torch.nn.functional as F
from torch import Tensor

from trainables.checks import check_number
from trainables.losses.base import CalibrationLoss


class MarginLabelSmoothing(CalibrationLoss):
    """Cross-entropy + λ · excess of logit distances over a margin.

    The penalty is the mean over samples and classes.

    Args:
        num_classes: Number K of classes.
        margin: Distance m >= 0 to the largest logit from which on a logit is penalised.
        lam: Weight λ >= 0.
    """

    source: ClassVar[str] = "Liu et al. 2022; Liu et al. 2023 (CALS), eq. 3"
    formula: ClassVar[str] = "−log p_y + λ mean_k max(0, max_j z_j − z_k − m)"
    looks_across_batch: ClassVar[bool] = False

    def __init__(self, num_classes: int, margin: float = 10.0, lam: float = 0.1) -> None:
        super().__init__(num_classes)
        self.margin = check_number("margin", margin, low=0)
        self.lam = check_number("lam", lam, low=0)

    def compute(
        self, logits: Tensor, targets: Tensor, indices: Tensor | None, features: Tensor | None
    ) -> Tensor:
        largest = logits.max(1, keepdim=True).values
        excess = F.relu(largest - logits - self.margin)
        return F.cross_entropy(logits, targets) + self.lam * excess.mean()
