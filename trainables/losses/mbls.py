"""Margin-based label smoothing."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch.nn.functional as F
from torch import Tensor

from trainables.losses.base import PerSampleLoss, of_classes
from trainables.plugins.arguments import Range


@dataclass(eq=False, repr=False)
class MarginLabelSmoothing(PerSampleLoss):
    """MbLS: cross-entropy + λ · excess of the logit distances over a margin.

    The penalty is the mean over samples and classes.

    Args:
        margin: Margin m: class k is penalised if max_j z_j − z_k > m.
        lam: Weight λ of the penalty.
    """

    source: ClassVar[str] = "Liu et al. 2022; Liu et al. 2023 (CALS), eq. 3"
    formula: ClassVar[str] = "−log p_y + λ mean_k max(0, max_j z_j − z_k − m)"

    margin: Annotated[float, Range(0, 1000)] = 10.0
    lam: Annotated[float, Range(0, 1000)] = 0.1

    def class_terms(self, logits: Tensor, classes: Tensor | None) -> Tensor:
        penalty = self.lam * excess(logits, self.margin).mean(1, keepdim=True)
        return penalty - of_classes(logits.log_softmax(1), classes)


def excess(logits: Tensor, margin: float) -> Tensor:
    """max(0, max_j z_j − z_k − m) for each class k, (N, K)."""
    return F.relu(logits.max(1, keepdim=True).values - margin - logits)
