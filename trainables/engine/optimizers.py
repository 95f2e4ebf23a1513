"""The optimisers of a trial, without the compiler that torch's own would load."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from trainables.contract.config import TrainingConfig
from trainables.losses import CalibrationLoss


def make_optimizer(
    model: nn.Module, loss: CalibrationLoss, config: TrainingConfig
) -> torch.optim.Optimizer:
    """The optimiser of a recipe, over the model's parameters and the loss's own.

    Every group keeps its learning rate at the start as ``initial_lr``; the loss's own parameters
    are not decayed.
    """
    own = [{"weight_decay": 0.0, **group} for group in loss.parameter_groups()]
    groups: list[dict[str, Any]] = [{"params": list(model.parameters())}, *own]
    for group in groups:
        group["initial_lr"] = group.get("lr", config.lr)
    if config.optimizer == "sgd":
        return torch.optim.SGD(
            groups,
            lr=config.lr,
            momentum=config.momentum,
            nesterov=config.nesterov,
            weight_decay=config.weight_decay,
            fused=config.fused_optimizer,
        )
    kind = torch.optim.AdamW if config.optimizer == "adamw" else torch.optim.Adam
    return kind(
        groups, lr=config.lr, weight_decay=config.weight_decay, fused=config.fused_optimizer
    )
