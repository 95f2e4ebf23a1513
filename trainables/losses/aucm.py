"""AUC margin loss."""

from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from trainables.checks import check_number
from trainables.losses.base import CalibrationLoss


def auc_margin(
    scores: Tensor, positive: Tensor, a: Tensor, b: Tensor, alpha: Tensor, margin: float
) -> Tensor:
    """The AUC margin loss of C binary problems.

    Args:
        scores: (N, C), in [0, 1].
        positive: (N, C), 1 for positive and 0 for negative samples, of the scores' dtype.
        a: (C,), estimate of the positives' mean score.
        b: (C,), estimate of the negatives' mean score.
        alpha: (C,), dual variable, >= 0.
        margin: Wanted distance of the two means.

    Returns:
        (C,).
    """
    negative = 1 - positive
    share = positive.mean(0)
    spread_of_positives = ((scores - a).square() * positive).mean(0)
    spread_of_negatives = ((scores - b).square() * negative).mean(0)
    gap = share * (scores * negative).mean(0) - (1 - share) * (scores * positive).mean(0)
    return (
        (1 - share) * spread_of_positives
        + share * spread_of_negatives
        + 2 * alpha * (share * (1 - share) * margin + gap)
        - share * (1 - share) * alpha.square()
    )


class AUCMargin(CalibrationLoss):
    """AUC min-max margin loss: minimised by model, a and b, maximised by the dual variable.

    On probabilities; for two classes the second is the positive one, for more it is the mean of
    the problems one against the rest. As the paper and LibAUC's version 1, the share of positives
    is that of the batch.

    Args:
        num_classes: Number K of classes.
        margin: Wanted distance between mean scores, >= 0.

    Attributes:
        a: Parameter (K,), or (1,) for two classes: the positives' mean score.
        b: Likewise, the negatives' mean score.
        alpha: Likewise, dual variable, kept at or above 0.
    """

    source: ClassVar[str] = "Yuan et al. 2021, eq. 3"
    formula: ClassVar[str] = (
        "(1−q)E₊[(p−a)²] + q E₋[(p−b)²] + 2α(q(1−q)m + q E₋[p] − (1−q)E₊[p]) − q(1−q)α²"
    )

    def __init__(self, num_classes: int, margin: float = 1.0) -> None:
        super().__init__(num_classes)
        self.margin = check_number("margin", margin, low=0)
        problems = 1 if num_classes == 2 else num_classes
        self.a = nn.Parameter(torch.zeros(problems))
        self.b = nn.Parameter(torch.zeros(problems))
        self.alpha = nn.Parameter(torch.zeros(problems))

    def compute(
        self, logits: Tensor, targets: Tensor, indices: Tensor | None, features: Tensor | None
    ) -> Tensor:
        probs = logits.softmax(1)
        if self.num_classes == 2:
            scores, positive = probs[:, 1:], targets.unsqueeze(1)
        else:
            classes = torch.arange(self.num_classes, device=targets.device)
            scores, positive = probs, targets.unsqueeze(1) == classes
        labels = positive.to(probs.dtype)
        return auc_margin(scores, labels, self.a, self.b, self.alpha, self.margin).mean()

    def on_step_end(self) -> None:
        """Projects the dual variable to [0, ∞)."""
        with torch.no_grad():
            self.alpha.clamp_(min=0)

    def parameter_groups(self) -> list[dict[str, Any]]:
        """One group to minimise, one to maximise."""
        return [{"params": [self.a, self.b]}, {"params": [self.alpha], "maximize": True}]
