"""AUC margin loss."""

from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from trainables.losses.base import CalibrationLoss
from trainables.plugins.arguments import Bounds


def auc_margin(
    scores: Tensor, positive: Tensor, a: Tensor, b: Tensor, alpha: Tensor, margin: float
) -> Tensor:
    """The AUC margin loss of each of C binary problems, (C,).

    Args:
        scores: (N, C), in [0, 1].
        positive: (N, C), 1 for positive and 0 for negative samples, of the scores' dtype.
        a: (C,), estimate of the positives' mean score.
        b: (C,), estimate of the negatives' mean score.
        alpha: (C,), dual variable, >= 0.
        margin: Wanted distance of the two means.
    """
    q = positive.mean(0)
    weight = q + positive * (1 - 2 * q)  # 1 − q for positive, q for negative samples
    mean = b + positive * (a - b)  # a for positive, b for negative samples
    spread = (weight * (scores - mean).square()).mean(0)
    gap = q * (1 - q) * margin + (weight * (1 - 2 * positive) * scores).mean(0)
    return spread + 2 * alpha * gap - q * (1 - q) * alpha.square()


class AUCMargin(CalibrationLoss):
    """AUC min-max margin loss: minimised by model, a and b, maximised by the dual variable.

    On probabilities; for two classes the second is the positive one, for more it is the mean of
    the problems one against the rest. As the paper and LibAUC's version 1, the share of positives
    is that of the batch.

    Args:
        num_classes: Number K of classes.
        margin: Wanted distance between mean scores.

    Attributes:
        a: Parameter (K,), or (1,) for two classes: the positives' mean score.
        b: Likewise, the negatives' mean score.
        alpha: Likewise, dual variable, kept at or above 0.
    """

    source: ClassVar[str] = "Yuan et al. 2021, eq. 3"
    formula: ClassVar[str] = (
        "(1−q)E₊[(p−a)²] + q E₋[(p−b)²] + 2α(q(1−q)m + q E₋[p] − (1−q)E₊[p]) − q(1−q)α²"
    )
    bounds: ClassVar = {"margin": Bounds(0, 1000)}

    def __init__(self, num_classes: int, margin: float = 1.0) -> None:
        super().__init__(num_classes)
        self.margin = self.check("margin", margin)
        problems = 1 if num_classes == 2 else num_classes
        self.a = nn.Parameter(torch.zeros(problems))
        self.b = nn.Parameter(torch.zeros(problems))
        self.alpha = nn.Parameter(torch.zeros(problems))

    def compute(
        self, logits: Tensor, targets: Tensor, indices: Tensor | None, features: Tensor | None
    ) -> Tensor:
        scores = logits.softmax(1)
        positive = torch.zeros_like(scores).scatter(1, targets.unsqueeze(1), 1.0)
        if self.num_classes == 2:
            scores, positive = scores[:, 1:], positive[:, 1:]
        return auc_margin(scores, positive, self.a, self.b, self.alpha, self.margin).mean()

    def on_step_end(self) -> None:
        """Projects the dual variable to [0, ∞)."""
        with torch.no_grad():
            self.alpha.clamp_(min=0)

    def parameter_groups(self) -> list[dict[str, Any]]:
        """One group to minimise, one to maximise."""
        return [{"params": [self.a, self.b]}, {"params": [self.alpha], "maximize": True}]
