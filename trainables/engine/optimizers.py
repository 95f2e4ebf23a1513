"""The optimiser of a trial."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from trainables.contract.config import TrainingConfig
from trainables.losses import CalibrationLoss


def make_optimizer(
    model: nn.Module, loss: CalibrationLoss, config: TrainingConfig
) -> torch.optim.Optimizer:
    """Creates the optimiser for the parameters of the model and of the loss.

    Each group stores its ``initial_lr``. The parameters of the loss have no weight decay.
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
