"""A small batch and losses with non-trivial state, for all tests of losses."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from trainables.losses import CalibrationLoss, make_loss

BuildLoss = Callable[..., CalibrationLoss]


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


@pytest.fixture
def build() -> BuildLoss:
    """Builds a loss in float64 with a state that differs from the initial one."""

    def build(name: str, num_classes: int, num_samples: int = 8, **hyper: Any) -> CalibrationLoss:
        loss = make_loss(name, num_classes, **hyper).double()
        loss.on_train_begin(num_samples)
        state = dict(loss.named_buffers())
        if name in ("adafocal", "ada_dual_focal"):
            state["gamma"].copy_(torch.linspace(-2, 5, len(state["gamma"])))
        if name == "crl":
            state["times_right"].copy_(torch.arange(num_samples) % 4)
            state["epochs"].fill_(3)
        if name.startswith("cals"):
            state["lam"].copy_(torch.linspace(0.1, 2, num_classes))
        for parameter in loss.parameters():
            parameter.data.uniform_(0.1, 0.5)
        return loss

    return build


@pytest.fixture
def batch() -> dict[str, Tensor]:
    """Eight samples of five classes with four features, float64; class 4 is absent."""
    return {
        "logits": torch.randn(8, 5, dtype=torch.float64) * 3,
        "targets": torch.randint(0, 4, (8,)),
        "indices": torch.randperm(8),
        "features": torch.randn(8, 4, dtype=torch.float64),
    }
