"""Confidence of the predicted class, and whether the prediction is correct."""

from typing import Literal, get_args

import torch
from torch import Tensor

from trainables.metrics._inputs import map_rows

Confidence = Literal["max_probability", "margin", "negative_entropy"]


def top_label(probs: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Largest probability (N,), and whether its class is the label (N,), bool."""
    confidence, predicted = probs.max(dim=1)
    return confidence, predicted == labels


def confidence_scores(probs: Tensor, confidence: Confidence) -> Tensor:
    """Confidence score of each sample, by which predictions are ranked, shape (N,)."""
    if confidence == "max_probability":
        return probs.amax(dim=1)
    if confidence == "margin":
        first, second = probs.topk(2, dim=1).values.unbind(dim=1)
        return first - second
    if confidence == "negative_entropy":
        return map_rows(lambda p: torch.xlogy(p, p).sum(dim=1), probs)
    allowed = ", ".join(get_args(Confidence))
    raise ValueError(f"confidence must be one of {allowed}, got {confidence!r}")
