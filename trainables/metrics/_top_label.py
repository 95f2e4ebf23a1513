"""Confidence of the predicted class, and whether the prediction is correct."""

from typing import Literal, get_args

import torch
from torch import Tensor

from trainables.metrics._inputs import map_rows, with_ties

Confidence = Literal["max_probability", "margin", "negative_entropy"]


def top_label(probs: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Largest probability (N,), and whether its class is the label (N,), bool."""
    confidence, predicted = probs.max(dim=1)
    return with_ties(confidence), predicted == labels


def confidence_scores(probs: Tensor, confidence: Confidence) -> Tensor:
    """Confidence score of each sample, by which predictions are ranked, shape (N,)."""
    if confidence == "max_probability":
        return with_ties(probs.amax(dim=1))
    if confidence == "margin":
        first, second = probs.topk(2, dim=1).values.double().unbind(dim=1)
        return with_ties(first - second)
    if confidence == "negative_entropy":
        return with_ties(map_rows(negative_entropy, probs))
    allowed = ", ".join(get_args(Confidence))
    raise ValueError(f"confidence must be one of {allowed}, got {confidence!r}")


def negative_entropy(probs: Tensor) -> Tensor:
    """The sum of p ln p of each sample, float64 (N,)."""
    probs = probs.double()
    return torch.xlogy(probs, probs).sum(dim=1)
