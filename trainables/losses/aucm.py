"""AUC margin loss."""

from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from trainables.arguments import check_number
from trainables.losses.base import CalibrationLoss
from trainables.losses.closed_form import softmax, with_gradient


def auc_margin(
    scores: Tensor, positive: Tensor, a: Tensor, b: Tensor, alpha: Tensor, margin: float
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """The AUC margin loss of C binary problems, and its derivatives.

    Args:
        scores: (N, C), in [0, 1].
        positive: (N, C), 1 for positive and 0 for negative samples, of the scores' dtype.
        a: (C,), estimate of the positives' mean score.
        b: (C,), estimate of the negatives' mean score.
        alpha: (C,), dual variable, >= 0.
        margin: Wanted distance of the two means.

    Returns:
        A scalar, the mean of the problems, and its derivatives by scores, a, b and alpha.
    """
    share = positive.mean(0)
    variance = share * (1 - share)
    weights = positive * (1 - 2 * share) + share  # q for negatives, 1 − q for positives
    signed = weights * (1 - 2 * positive)
    deviations = scores - (positive * (a - b) + b)
    weighted = weights * deviations
    gap = (signed * scores).mean(0) + variance * margin
    value = (weighted * deviations).mean(0) + alpha * (2 * gap - variance * alpha)
    by_a = (weighted * positive).sum(0)
    by_b = weighted.sum(0) - by_a
    factor = 2 / scores.numel()
    return (
        value.mean(),
        weighted.addcmul_(signed, alpha).mul_(factor),
        by_a.mul_(-factor),
        by_b.mul_(-factor),
        (gap - variance * alpha).mul_(factor * len(scores)),
    )


class AUCMargin(CalibrationLoss):
    """AUC min-max margin loss: minimised by model, a and b, maximised by the dual variable.

    On probabilities; for two classes the second is the positive one, for more it is the mean of
    the problems one against the rest. As the paper and LibAUC's version 1, the share of positives
    is that of the batch.

    Args:
        num_classes: Number K of classes.
        margin: Wanted distance between mean scores, in [0, 1000].

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
        self.margin = check_number("margin", margin, 0, 1000)
        problems = 1 if num_classes == 2 else num_classes
        self.a = nn.Parameter(torch.zeros(problems))
        self.b = nn.Parameter(torch.zeros(problems))
        self.alpha = nn.Parameter(torch.zeros(problems))

    def compute(
        self, logits: Tensor, targets: Tensor, indices: Tensor | None, features: Tensor | None
    ) -> Tensor:
        return with_gradient(
            lambda: self._value_and_gradients(logits, targets), logits, self.a, self.b, self.alpha
        )

    def on_step_end(self) -> None:
        """Projects the dual variable to [0, ∞)."""
        with torch.no_grad():
            self.alpha.clamp_(min=0)

    def parameter_groups(self) -> list[dict[str, Any]]:
        """One group to minimise, one to maximise."""
        return [{"params": [self.a, self.b]}, {"params": [self.alpha], "maximize": True}]

    def _value_and_gradients(self, logits: Tensor, targets: Tensor) -> tuple[Tensor, ...]:
        probs, classes = softmax(logits), targets.unsqueeze(1)
        positive = torch.zeros_like(probs).scatter_(1, classes, 1.0)
        first = 1 if self.num_classes == 2 else 0
        value, by_scores, *by_duals = auc_margin(
            probs[:, first:], positive[:, first:], self.a, self.b, self.alpha, self.margin
        )
        inner = (by_scores * probs[:, first:]).sum(1, keepdim=True)
        probs[:, first:] *= by_scores - inner
        if first:
            probs[:, :first] *= -inner
        return value, probs, *by_duals
