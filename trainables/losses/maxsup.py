"""Max suppression."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from torch import Tensor

from trainables.losses.base import PerSampleLoss, of_classes
from trainables.plugins.arguments import Range


@dataclass(eq=False, repr=False)
class MaxSuppression(PerSampleLoss):
    """MaxSup: cross-entropy + α · (largest logit − mean logit).

    Label smoothing penalises z_y instead of the largest logit, so it rewards confident errors.

    Args:
        alpha: Weight α of the penalty.
    """

    source: ClassVar[str] = "Zhou et al. 2025 (MaxSup)"
    formula: ClassVar[str] = "−log p_y + α (max_k z_k − mean_k z_k)"

    alpha: Annotated[float, Range(0, 100)] = 0.1

    def class_terms(self, logits: Tensor, classes: Tensor | None) -> Tensor:
        log_p = of_classes(logits.log_softmax(1), classes)
        excess = logits.amax(1, keepdim=True) - logits.mean(1, keepdim=True)
        return -log_p + self.alpha * excess
