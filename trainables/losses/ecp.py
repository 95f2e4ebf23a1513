"""Explicit confidence penalty."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
from torch import Tensor

from trainables.losses.base import PerSampleLoss, of_classes
from trainables.plugins.arguments import Range


@dataclass(eq=False, repr=False)
class ConfidencePenalty(PerSampleLoss):
    """Explicit confidence penalty: cross-entropy − λ · entropy H(p).

    As in the paper, H(p) = −Σ_k p_k log p_k; the CALS code divides it by K.

    Args:
        lam: Weight λ.
    """

    source: ClassVar[str] = "Pereyra et al. 2017, section 3"
    formula: ClassVar[str] = "−log p_y − λ H(p)"

    lam: Annotated[float, Range(0, 1000)] = 0.1

    def class_terms(self, logits: Tensor, classes: Tensor | None) -> Tensor:
        log_probs = logits.log_softmax(1)
        entropy = entropy_of(log_probs).unsqueeze(1)
        return -of_classes(log_probs, classes) - self.lam * entropy


def entropy_of(log_probs: Tensor) -> Tensor:
    """Entropy in nats of each row of (N, K) log-probabilities; 0 · log 0 is 0."""
    probs = log_probs.exp()
    return -(probs * log_probs.clamp_min(torch.finfo(log_probs.dtype).min)).sum(1)
