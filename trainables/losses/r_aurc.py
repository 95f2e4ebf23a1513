"""Regularised AURC: cross-entropy weighted by the rank of the confidence."""

from typing import ClassVar, Final

from torch import Tensor

from trainables.losses.base import CalibrationLoss, Extra
from trainables.losses.soft_rank import soft_rank
from trainables.plugins.arguments import Range, check_choice

CONFIDENCES: Final = ("max_probability", "margin", "negative_entropy")


class RegularizedAURC(CalibrationLoss):
    """r-AURC: cross-entropy mixed with a differentiable area under the risk–coverage curve.

    r̂_i is the soft rank of the confidence of sample i in the batch (1 is the least confident), and
    n is the size of the batch. The authors' code uses the configured batch size for n, and the
    softmax of a softmax for the confidence. Gradients flow through the ranks.

    Args:
        lam: Weight λ of the AURC term; 0 gives cross-entropy.
        epsilon: Regularisation strength ε of the soft rank; the paper uses 0.05 for CIFAR-10 and
            0.01 for 100 or more classes.
        confidence: ``max_probability``, ``margin`` or ``negative_entropy``.
    """

    source: ClassVar[str] = "Zhou et al. (r-AURC), eq. 19, 22, algorithm 1"
    formula: ClassVar[str] = "((1−λ) − λ ln(1 − r̂_i/(n+1))) · −log p_y"
    bounds: ClassVar = {"lam": Range(0, 1), "epsilon": Range(1e-6, 1000)}

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

    def compute(self, logits: Tensor, targets: Tensor, indices: Extra, features: Extra) -> Tensor:
        n, log_probs = len(logits), logits.log_softmax(1)
        ranks = soft_rank(self._scores(log_probs), self.epsilon)
        weights = (1 - self.lam) - self.lam * ((n + 1 - ranks) / (n + 1)).log()
        return (weights * -log_probs.gather(1, targets.unsqueeze(1)).squeeze(1)).mean()

    def _scores(self, log_probs: Tensor) -> Tensor:
        """The confidence of each sample, (N,)."""
        probs = log_probs.exp()
        if self.confidence == "negative_entropy":
            return (probs * log_probs).sum(1)
        if self.confidence == "max_probability":
            return probs.amax(1)
        first, second = probs.topk(2, 1).values.unbind(1)
        return first - second
