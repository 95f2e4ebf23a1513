"""Regularised AURC: cross-entropy weighted by the rank of the confidence."""

from typing import ClassVar, Final

from torch import Tensor

from trainables.losses.base import CalibrationLoss
from trainables.losses.soft_rank import soft_rank
from trainables.plugins.arguments import Bounds, check_choice

CONFIDENCES: Final = ("max_probability", "margin", "negative_entropy")


class RegularizedAURC(CalibrationLoss):
    """Cross-entropy mixed with a differentiable area under the risk-coverage curve.

    r̂ is the soft rank of the confidence in the batch at hand, 1 the least confident, and n the
    size of that batch (the authors' code uses the configured size, and takes the softmax of a
    softmax for the confidence). Gradients flow through the ranks.

    Args:
        num_classes: Number K of classes.
        lam: Weight λ of the ranked part; 0 is cross-entropy.
        epsilon: Strength ε of the soft rank's regularisation; the paper has 0.05 for CIFAR-10 and
            0.01 for 100 and more classes.
        confidence: ``max_probability``, ``margin`` or ``negative_entropy``.
    """

    source: ClassVar[str] = "Zhou et al. (r-AURC), eq. 19, 22, algorithm 1"
    formula: ClassVar[str] = "((1−λ) − λ ln(1 − r̂_i/(n+1))) · −log p_y"
    bounds: ClassVar = {"lam": Bounds(0, 1), "epsilon": Bounds(1e-6, 1000)}

    def __init__(
        self,
        num_classes: int,
        lam: float = 0.5,
        epsilon: float = 0.05,
        confidence: str = "max_probability",
    ) -> None:
        super().__init__(num_classes)
        self.lam = self.check("lam", lam)
        self.epsilon = self.check("epsilon", epsilon)
        self.confidence = check_choice("confidence", confidence, CONFIDENCES)

    def compute(
        self, logits: Tensor, targets: Tensor, indices: Tensor | None, features: Tensor | None
    ) -> Tensor:
        n, log_probs = len(logits), logits.log_softmax(1)
        ranks = soft_rank(self._scores(log_probs), self.epsilon)
        weights = (1 - self.lam) - self.lam * ((n + 1 - ranks) / (n + 1)).log()
        return (weights * -log_probs.gather(1, targets.unsqueeze(1)).squeeze(1)).mean()

    def _scores(self, log_probs: Tensor) -> Tensor:
        """The confidence in each sample, (N,)."""
        probs = log_probs.exp()
        if self.confidence == "negative_entropy":
            return (probs * log_probs).sum(1)
        if self.confidence == "max_probability":
            return probs.amax(1)
        first, second = probs.topk(2, 1).values.unbind(1)
        return first - second
