"""The optimisers of trials, compared with PyTorch's own classes."""

from typing import Any

import pytest
import torch
from torch import nn

from trainables.contract.config import TrainingConfig
from trainables.engine.optimizers import make_optimizer, set_learning_rates
from trainables.losses import make_loss


@pytest.mark.parametrize(
    ("name", "options", "kind"),
    [
        ("sgd", {"momentum": 0.9, "nesterov": True}, torch.optim.SGD),
        ("adam", {}, torch.optim.Adam),
        ("adamw", {}, torch.optim.AdamW),
    ],
)
def test_it_takes_the_same_steps(
    name: Any, options: dict[str, Any], kind: type[torch.optim.Optimizer]
) -> None:
    torch.manual_seed(0)
    ours, theirs = nn.Linear(3, 2), nn.Linear(3, 2)
    theirs.load_state_dict(ours.state_dict())
    recipe = TrainingConfig(optimizer=name, lr=0.1, weight_decay=0.01, **options)
    one = make_optimizer(ours, make_loss("cross_entropy", 2), recipe)
    other: Any = kind(theirs.parameters(), lr=0.1, weight_decay=0.01, fused=True, **options)
    assert isinstance(one, kind)
    for step in range(1, 4):
        inputs = torch.randn(5, 3)
        set_learning_rates(one, 1 / step)
        other.param_groups[0]["lr"] = 0.1 / step
        for network, optimizer in ((ours, one), (theirs, other)):
            optimizer.zero_grad()
            network(inputs).square().sum().backward()
            optimizer.step()
    for own, expected in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert torch.equal(own, expected)
