"""Weights of classes in training, for data in which some are rare."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from trainables.config import ClassWeights
from trainables.distributed import all_gather
from trainables.losses import CalibrationLoss


def class_weights(given: ClassWeights, labels: np.ndarray, num_classes: int) -> Tensor:
    """The weight of each class.

    Args:
        given: A weight for each class; or ``balanced``, N / (K n_k), by which all classes count
            alike (King and Zeng 2001; as in scikit-learn).
        labels: (N,) int64, of the training split.
        num_classes: K.

    Returns:
        (K,) float32; 0 for a class of which there is no sample.

    Raises:
        ValueError: There is not one weight for each class.
    """
    if given == "balanced":
        counts = np.bincount(labels, minlength=num_classes)
        shares = np.divide(len(labels), num_classes * counts, where=counts > 0, out=0.0 * counts)
        return torch.from_numpy(shares).float()
    if len(given) != num_classes:
        raise ValueError(
            f"class_weights has {len(given)} weights, and there are {num_classes} classes; "
            "allowed: balanced, or one weight for each class, in their order"
        )
    return torch.tensor(given)


def can_be_weighted(loss: type[nn.Module]) -> bool:
    """Whether a loss is a mean of terms of single samples of one class each."""
    return (
        issubclass(loss, CalibrationLoss)
        and not loss.looks_across_batch
        and not loss.mixes_inputs
        and loss.trains_classifier
    )


def weighted(logits: Tensor, targets: Tensor, weights: Tensor) -> Tensor:
    """Logits whose loss has the gradient of a weighted mean, Σ w_i l_i / Σ w_i, not of the mean.

    The loss's value stays the plain mean. Under ``torch.distributed`` the sums are over all
    workers.

    Args:
        logits: (N, K), the worker's share of the batch.
        targets: (N,) int64.
        weights: (K,), of the classes.
    """
    own = weights[targets]
    everyones = all_gather(own)
    scale = own * (len(everyones) / everyones.sum().clamp_min(torch.finfo(own.dtype).tiny))
    scaled: Tensor = _ScaledGradient.apply(logits, scale.unsqueeze(1))
    return scaled


class _ScaledGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits: Tensor, scale: Tensor) -> Tensor:
        ctx.save_for_backward(scale)
        return logits.view_as(logits)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (scale,) = ctx.saved_tensors
        return gradient * scale.to(gradient.dtype), None
