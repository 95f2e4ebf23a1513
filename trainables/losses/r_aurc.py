"""Regularised AURC: cross-entropy weighted by the rank of the confidence."""

from typing import ClassVar, Final

import torch.nn.functional as F
from torch import Tensor

from trainables.checks import check_choice, check_number
from trainables.losses.base import CalibrationLoss
from trainables.losses.soft_rank import soft_rank

CONFIDENCES: Final = ("max_probability", "margin", "negative_entropy")


def confidence_score(logits: Tensor, kind: str) -> Tensor:
    """Confidence (N,) of predictions (N, K), table 3 of the paper; larger is surer.

    Args:
        logits: (N, K).
        kind: One of :data:`CONFIDENCES`: max_k p_k, the two largest p's difference, Σ p log p.
    """
    if kind == "negative_entropy":
        log_probs = logits.log_softmax(1)
        return (log_probs.exp() * log_probs).sum(1)
    probs = logits.softmax(1)
    if kind == "max_probability":
        return probs.max(1).values
    largest = probs.topk(2, 1).values
    return largest[:, 0] - largest[:, 1]


class RegularizedAURC(CalibrationLoss):
    """Cross-entropy mixed with a differentiable area under the risk-coverage curve.

    r̂ is the soft rank of the confidence in the batch at hand, 1 the least confident, and n the
    size of that batch (the authors' code uses the configured size, and takes the softmax of a
    softmax for the confidence). Gradients flow through the ranks.

    Args:
        num_classes: Number K of classes.
        lam: Weight λ of the ranked part, in [0, 1]; 0 is cross-entropy.
        epsilon: Strength ε > 0 of the soft rank's regularisation; the paper has 0.05 for
            CIFAR-10 and 0.01 for 100 and more classes.
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
        self.epsilon = check_number("epsilon", epsilon, low=0, open_low=True)
        self.confidence = check_choice("confidence", confidence, CONFIDENCES)

    def compute(
        self, logits: Tensor, targets: Tensor, indices: Tensor | None, features: Tensor | None
    ) -> Tensor:
        ranks = soft_rank(confidence_score(logits, self.confidence), self.epsilon)
        weights = 1 - self.lam - self.lam * (-ranks / (len(logits) + 1)).log1p()
        return (weights * F.cross_entropy(logits, targets, reduction="none")).mean()
