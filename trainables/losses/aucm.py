"""AUC margin loss."""

from typing import ClassVar

import torch
from torch import Tensor, nn

from trainables.losses.base import CalibrationLoss, Extra
from trainables.plugins.arguments import Range


class AUCMargin(CalibrationLoss):
    """AUC min-max margin loss, minimised over model, a and b, maximised over the dual variable α.

    The scores are the probabilities p. With two classes, the second is the positive class; with
    more, the loss is the mean over the K one-vs-rest problems. As in the paper and in version 1 of
    LibAUC, q is the share of positives in the batch.

    Args:
        margin: Target difference m between the mean scores of positives and negatives.

    Attributes:
        a: Parameter (K,), or (1,) with two classes: estimated mean score of the positives.
        b: Parameter of the same shape: estimated mean score of the negatives.
        alpha: Parameter of the same shape: dual variable α >= 0.
    """

    source: ClassVar[str] = "Yuan et al. 2021, eq. 3"
    formula: ClassVar[str] = (
        "(1−q)E₊[(p−a)²] + q E₋[(p−b)²] + 2α(q(1−q)m + q E₋[p] − (1−q)E₊[p]) − q(1−q)α²"
    )
    bounds: ClassVar = {"margin": Range(0, 1000)}

    def __init__(self, num_classes: int, margin: float = 1.0) -> None:
        super().__init__(num_classes)
        self.margin = self.check("margin", margin)
        problems = 1 if num_classes == 2 else num_classes
        self.a = nn.Parameter(torch.zeros(problems))
        self.b = nn.Parameter(torch.zeros(problems))
        self.alpha = nn.Parameter(torch.zeros(problems))

    def compute(self, logits: Tensor, targets: Tensor, indices: Extra, features: Extra) -> Tensor:
        scores = logits.softmax(1)
        positive = torch.zeros_like(scores).scatter(1, targets.unsqueeze(1), 1.0)
        if self.num_classes == 2:
            scores, positive = scores[:, 1:], positive[:, 1:]
        return self.of_problems(scores, positive).mean()

    def of_problems(self, scores: Tensor, positive: Tensor) -> Tensor:
        """The loss of each of C binary problems, (C,).

        ``scores`` (N, C) are in [0, 1]; ``positive`` (N, C) is 1 for positive and 0 for negative
        samples.
        """
        q = positive.mean(0)
        weight = q + positive * (1 - 2 * q)  # 1 − q for positive, q for negative samples
        mean = self.b + positive * (self.a - self.b)  # a for positive, b for negative samples
        spread = (weight * (scores - mean).square()).mean(0)
        gap = q * (1 - q) * self.margin + (weight * (1 - 2 * positive) * scores).mean(0)
        return spread + 2 * self.alpha * gap - q * (1 - q) * self.alpha.square()

    def on_step_end(self) -> None:
        """Projects the dual variable to [0, ∞)."""
        with torch.no_grad():
            self.alpha.clamp_(min=0)

    def parameter_groups(self) -> list[dict[str, object]]:
        """Two groups: a and b are minimised, α is maximised."""
        return [{"params": [self.a, self.b]}, {"params": [self.alpha], "maximize": True}]
