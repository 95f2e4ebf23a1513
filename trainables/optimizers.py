"""The optimisers of a trial, without the compiler that torch's own would load."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from trainables.config import TrainingConfig
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
        return _uncompiled(torch.optim.SGD)(
            groups,
            lr=config.lr,
            momentum=config.momentum,
            nesterov=config.nesterov,
            weight_decay=config.weight_decay,
        )
    kind = torch.optim.AdamW if config.optimizer == "adamw" else torch.optim.Adam
    return _uncompiled(kind)(groups, lr=config.lr, weight_decay=config.weight_decay)


def _uncompiled(kind: type[torch.optim.Optimizer]) -> Callable[..., torch.optim.Optimizer]:
    """The same optimiser, less the wrappers that tell torch.compile where to break a graph.

    Those import ``torch._dynamo``: 3.5 s and 115 MB in every worker, which compiles nothing.
    """
    bare = {
        name: inspect.unwrap(getattr(kind, name))
        for name in ("add_param_group", "zero_grad", "state_dict", "load_state_dict")
    }
    step = torch.no_grad()(inspect.unwrap(kind.step))
    return type(kind.__name__, (kind,), {**bare, "step": step})
