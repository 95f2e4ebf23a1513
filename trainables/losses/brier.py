"""The Brier score."""

from typing import ClassVar

from torch import Tensor

from trainables.losses.closed_form import ClosedFormLoss


def brier_and_gradient(probs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Mean over samples of ‖p − onehot(y)‖² and its derivative by the logits.

    Args:
        probs: (N, K).
        targets: (N,) int64.
    """
    residual = probs.scatter(1, targets.unsqueeze(1), -1.0, reduce="add")
    value = residual.square().sum() / len(probs)
    # Derivative by z_j: 2 p_j (r_j − Σ_k p_k r_k), r the residual.
    inner = (probs * residual).sum(1, keepdim=True)
    return value, residual.sub_(inner).mul_(probs).mul_(2 / len(probs))


class Brier(ClosedFormLoss):
    """Squared distance of p to the one-hot label, summed over classes.

    Args:
        num_classes: Number K of classes.
    """

    source: ClassVar[str] = "Brier 1950"
    formula: ClassVar[str] = "‖p − onehot(y)‖²"
    looks_across_batch: ClassVar[bool] = False

    def value_and_gradient(self, logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        return brier_and_gradient(logits.softmax(1), targets)
