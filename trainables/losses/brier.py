"""The Brier score."""

from typing import ClassVar

from torch import Tensor

from trainables.losses.base import PerSampleLoss, of_classes


def squared_error(probs: Tensor, classes: Tensor | None) -> Tensor:
    """‖p − onehot(y)‖² = 1 − 2 p_y + Σ_k p_k² of each sample.

    Args:
        probs: (N, K), probabilities p.
        classes: See :meth:`PerSampleLoss.class_terms`.

    Returns:
        (N, 1), or (N, K) if ``classes`` is None.
    """
    return 1 - 2 * of_classes(probs, classes) + probs.square().sum(1, keepdim=True)


class Brier(PerSampleLoss):
    """Brier score: squared error between p and the one-hot label, summed over classes.

    Args:
        num_classes: Number K of classes.
    """

    source: ClassVar[str] = "Brier 1950"
    formula: ClassVar[str] = "‖p − onehot(y)‖²"

    def class_terms(self, logits: Tensor, classes: Tensor | None) -> Tensor:
        return squared_error(logits.softmax(1), classes)
