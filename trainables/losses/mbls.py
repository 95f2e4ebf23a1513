"""Margin-based label smoothing."""

from typing import ClassVar

import torch
from torch import Tensor

from trainables.checks import check_number
from trainables.losses.closed_form import ClosedFormLoss, cross_entropy_and_gradient


def add_by_distances(gradient: Tensor, by_distances: Tensor, largest_class: Tensor) -> Tensor:
    """Adds to a gradient that of a function of the logit distances d_k = max_j z_j − z_k.

    Args:
        gradient: (N, K), derivative by the logits; changed.
        by_distances: (N, K), the function's derivative by d.
        largest_class: (N, 1), where the largest logit is.
    """
    gradient.sub_(by_distances)
    return gradient.scatter_add_(1, largest_class, by_distances.sum(1, keepdim=True))


class MarginLabelSmoothing(ClosedFormLoss):
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

    def value_and_gradient(self, logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        value, gradient, _ = cross_entropy_and_gradient(logits.log_softmax(1), targets)
        largest, largest_class = logits.max(1, keepdim=True)
        excess = (largest - logits).sub_(self.margin).clamp_min_(0)
        violated = torch.sign(excess).mul_(self.lam / logits.numel())
        add_by_distances(gradient, violated, largest_class)
        return value + self.lam * excess.mean(), gradient
