"""The Brier score."""

from typing import ClassVar

from torch import Tensor

from trainables.losses.base import PerSampleLoss, of_classes


def squared_error(probs: Tensor, classes: Tensor | None) -> Tensor:
    """‖p − onehot(y)‖² = 1 − 2 p_y + Σ_k p_k²; see :meth:`PerSampleLoss.class_terms`."""
    return 1 - 2 * of_classes(probs, classes) + probs.square().sum(1, keepdim=True)


class Brier(PerSampleLoss):
    """Brier score: squared error between p and the one-hot label, summed over classes."""

    source: ClassVar[str] = "Brier 1950"
    formula: ClassVar[str] = "‖p − onehot(y)‖²"

    def class_terms(self, logits: Tensor, classes: Tensor | None) -> Tensor:
        return squared_error(logits.softmax(1), classes)
