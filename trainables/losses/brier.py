"""The Brier score."""

from typing import ClassVar

import torch
from torch import Tensor

from trainables.losses.closed_form import ClosedFormLoss, softmax


def squared_error_terms(probs: Tensor, p: Tensor) -> tuple[Tensor, Tensor]:
    """‖p − onehot(y)‖² and Σ_k p_k (p_k − 1[k=y]) of each sample, (N, 1).

    Args:
        probs: (N, K).
        p: (N, 1), the true class's probability.
    """
    squares = torch.linalg.vector_norm(probs, dim=1, keepdim=True).square_()
    inner = squares - p
    return (inner - p).add_(1), inner


def squared_error_of_each(probs: Tensor) -> Tensor:
    """‖p − onehot(k)‖² of each sample for each class k, (N, K), differentiable."""
    return probs.square().sum(1, keepdim=True) - 2 * probs + 1


class Brier(ClosedFormLoss):
    """Squared distance of p to the one-hot label, summed over classes.

    Args:
        num_classes: Number K of classes.
    """

    source: ClassVar[str] = "Brier 1950"
    formula: ClassVar[str] = "‖p − onehot(y)‖²"
    looks_across_batch: ClassVar[bool] = False
    soft_targets: ClassVar[bool] = True
    several_labels: ClassVar[bool] = True
    each_pixel: ClassVar[bool] = True

    def value_and_gradient(self, logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        probs, classes = softmax(logits), targets.unsqueeze(1)
        p = probs.gather(1, classes)
        errors, inner = squared_error_terms(probs, p)
        # Derivative by z_j: 2 p_j (r_j − Σ_k p_k r_k), r = p − onehot(y).
        gradient = (probs - inner).mul_(probs.mul_(2 / len(logits)))
        return errors.mean(), gradient.scatter_add_(1, classes, p.mul_(-2 / len(logits)))

    def class_terms(self, logits: Tensor) -> Tensor:
        return squared_error_of_each(logits.softmax(1))
