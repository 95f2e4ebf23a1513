"""Max suppression."""

from typing import ClassVar

from torch import Tensor

from trainables.losses.base import PerSampleLoss, of_classes
from trainables.plugins.arguments import Bounds


class MaxSuppression(PerSampleLoss):
    """MaxSup: cross-entropy + α · (largest logit − mean logit).

    Label smoothing penalises z_y instead of the largest logit, so it rewards confident errors.

    Args:
        alpha: Weight α of the penalty.
    """

    source: ClassVar[str] = "Zhou et al. 2025 (MaxSup)"
    formula: ClassVar[str] = "−log p_y + α (max_k z_k − mean_k z_k)"
    bounds: ClassVar = {"alpha": Bounds(0, 100)}

    def __init__(self, num_classes: int, alpha: float = 0.1) -> None:
        super().__init__(num_classes)
        self.alpha = self.check("alpha", alpha)

    def class_terms(self, logits: Tensor, classes: Tensor | None) -> Tensor:
        log_p = of_classes(logits.log_softmax(1), classes)
        excess = logits.amax(1, keepdim=True) - logits.mean(1, keepdim=True)
        return -log_p + self.alpha * excess
