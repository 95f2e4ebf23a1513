"""Regularised AURC: cross-entropy weighted by the rank of the confidence."""

import math
from typing import ClassVar, Final

from torch import Tensor

from trainables.arguments import check_choice, check_number
from trainables.losses.closed_form import ClosedFormLoss, log_softmax, pull_back
from trainables.losses.soft_rank import soft_rank

CONFIDENCES: Final = ("max_probability", "margin", "negative_entropy")


class RegularizedAURC(ClosedFormLoss):
    """Cross-entropy mixed with a differentiable area under the risk-coverage curve.

    r̂ is the soft rank of the confidence in the batch at hand, 1 the least confident, and n the
    size of that batch (the authors' code uses the configured size, and takes the softmax of a
    softmax for the confidence). Gradients flow through the ranks.

    Args:
        num_classes: Number K of classes.
        lam: Weight λ of the ranked part, in [0, 1]; 0 is cross-entropy.
        epsilon: Strength ε in [1e-6, 1000] of the soft rank's regularisation; the paper has 0.05
            for CIFAR-10 and 0.01 for 100 and more classes.
        confidence: ``max_probability``, ``margin`` or ``negative_entropy``.
    """

    source: ClassVar[str] = "Zhou et al. (r-AURC), eq. 19, 22, algorithm 1"
    formula: ClassVar[str] = "((1−λ) − λ ln(1 − r̂_i/(n+1))) · −log p_y"

    def __init__(
        self,
        num_classes: int,
        lam: float = 0.5,
        epsilon: float = 0.05,
        confidence: str = "max_probability",
    ) -> None:
        super().__init__(num_classes)
        self.lam = check_number("lam", lam, 0, 1)
        self.epsilon = check_number("epsilon", epsilon, 1e-6, 1000)
        self.confidence = check_choice("confidence", confidence, CONFIDENCES)

    def value_and_gradient(self, logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        log_probs, classes = log_softmax(logits), targets.unsqueeze(1)
        losses = -log_probs.gather(1, classes)
        probs = log_probs.exp()
        if self.confidence == "negative_entropy":
            by_class = log_probs.mul_(probs)
            scores = by_class.sum(1, keepdim=True)
        elif self.confidence == "max_probability":
            scores, first = probs.max(1, keepdim=True)
        else:
            largest, order = probs.topk(2, 1)
            scores = largest[:, :1] - largest[:, 1:]

        ranks, pull_back_ranks = soft_rank(scores.squeeze(1), self.epsilon)
        # −ln(1 − r/(n+1)) = ln(n+1) − ln(left), with left from 1 to n.
        left = (len(logits) + 1 - ranks).unsqueeze_(1)
        by_ranks = (losses / left).mul_(self.lam / len(logits))
        offset = 1 - self.lam + self.lam * math.log(len(logits) + 1)
        weights = left.log_().mul_(-self.lam).add_(offset).div_(len(logits))
        by_scores = pull_back_ranks(by_ranks.squeeze(1)).unsqueeze_(1)
        value = (weights * losses).sum()

        true_class = classes, weights.neg_()
        if self.confidence == "negative_entropy":
            # Derivative of Σ p log p by z_j: p_j (log p_j − Σ p log p).
            by_entropy = by_class.addcmul_(probs, scores, value=-1).mul_(by_scores)
            gradient = pull_back(probs, true_class).add_(by_entropy)
        elif self.confidence == "max_probability":
            gradient = pull_back(probs, true_class, (first, scores * by_scores))
        else:
            by_first, by_second = (largest * by_scores).unbind(1)
            gradient = pull_back(
                probs,
                true_class,
                (order[:, :1], by_first.unsqueeze(1)),
                (order[:, 1:], -by_second.unsqueeze(1)),
            )
        return value, gradient
