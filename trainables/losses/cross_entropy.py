"""Cross-entropy and label smoothing."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from torch import Tensor

from trainables.losses.base import PerSampleLoss, of_classes
from trainables.plugins.arguments import Range


class CrossEntropy(PerSampleLoss):
    """Cross-entropy: negative log-likelihood of the true class."""

    source: ClassVar[str] = "the baseline of all papers"
    formula: ClassVar[str] = "−log p_y"

    def class_terms(self, logits: Tensor, classes: Tensor | None) -> Tensor:
        return -of_classes(logits.log_softmax(1), classes)


@dataclass(eq=False, repr=False)
class LabelSmoothing(PerSampleLoss):
    """Label smoothing: cross-entropy against the target (1−α)·onehot(y) + α/K.

    PyTorch and the CALS code use the same definition; the MDCA code distributes α over the K−1
    other classes.

    Args:
        alpha: Weight α of the uniform distribution.
    """

    source: ClassVar[str] = "Szegedy et al. 2016, section 7"
    formula: ClassVar[str] = "−Σ_k ((1−α)·1[k=y] + α/K) log p_k"

    alpha: Annotated[float, Range(0, 1)] = 0.05

    def class_terms(self, logits: Tensor, classes: Tensor | None) -> Tensor:
        log_probs = logits.log_softmax(1)
        log_p = of_classes(log_probs, classes)
        return -(1 - self.alpha) * log_p - self.alpha * log_probs.mean(1, keepdim=True)
