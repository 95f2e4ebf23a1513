"""Predictions that several test files use."""

import pytest
import torch
from torch import Tensor


def make_predictions(
    num_samples: int, num_classes: int, seed: int = 0, scale: float = 2.0
) -> tuple[Tensor, Tensor]:
    """Overconfident float64 logits, and labels drawn from their softmax at temperature 1.5."""
    generator = torch.Generator().manual_seed(seed)
    logits = scale * torch.randn(num_samples, num_classes, generator=generator, dtype=torch.float64)
    labels = torch.multinomial(torch.softmax(logits / 1.5, dim=1), 1, generator=generator)
    return logits, labels[:, 0]


@pytest.fixture
def logits() -> Tensor:
    return make_predictions(500, 6)[0]


@pytest.fixture
def probs(logits: Tensor) -> Tensor:
    return torch.softmax(logits, dim=1)


@pytest.fixture
def labels() -> Tensor:
    return make_predictions(500, 6)[1]


@pytest.fixture
def rough_probs(probs: Tensor) -> Tensor:
    """Rows of positive multiples of 1/64: exact in half precision, with many ties."""
    num_classes = probs.shape[1]
    generator = torch.Generator().manual_seed(0)
    drawn = torch.multinomial(probs, 64 - num_classes, replacement=True, generator=generator)
    counts = 1 + torch.nn.functional.one_hot(drawn, num_classes).sum(dim=1)
    return counts.double() / 64
