"""The optimiser of a trial."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache
from typing import Any, Final

import torch
from torch import nn
from torch.optim import Optimizer

from trainables.contract.config import TrainingConfig
from trainables.losses import CalibrationLoss

_WRAPPED: Final = ("step", "zero_grad", "add_param_group", "state_dict", "load_state_dict")


def make_optimizer(model: nn.Module, loss: CalibrationLoss, config: TrainingConfig) -> Optimizer:
    """Creates the optimiser for the parameters of the model and of the loss.

    Each group stores its ``initial_lr``. The parameters of the loss have no weight decay. On a GPU,
    learning rates are tensors, so that a captured step reads them.
    """
    own = [{"weight_decay": 0.0, **group} for group in loss.parameter_groups()]
    groups: list[dict[str, Any]] = [{"params": list(model.parameters())}, *own]
    for group in groups:
        group["initial_lr"] = group.get("lr", config.lr)
    kinds = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW}
    of_sgd = {"momentum": config.momentum, "nesterov": config.nesterov}
    optimizer = _uncompiled(kinds[config.optimizer])(
        groups,
        lr=config.lr,
        weight_decay=config.weight_decay,
        fused=config.fused_optimizer,
        **(of_sgd if config.optimizer == "sgd" else {}),
    )
    place_learning_rates(optimizer)
    return optimizer


@cache
def _uncompiled(kind: type[Optimizer]) -> Callable[..., Optimizer]:
    """A subclass without what ``torch.compile`` needs, whose import takes 1.5 s of CPU time.

    The methods of an optimiser are wrapped by functions that import it; without it, those of
    ``step`` only disable gradients.
    """
    methods = {name: inspect.unwrap(getattr(kind, name)) for name in _WRAPPED}
    return type(kind.__name__, (kind,), {**methods, "step": torch.no_grad()(methods["step"])})


def place_learning_rates(optimizer: Optimizer) -> None:
    """Make learning rates tensors where their parameters are on a GPU, otherwise numbers."""
    for group in optimizer.param_groups:
        device = group["params"][0].device
        # Without a fused kernel, an optimiser would read the tensor from the GPU at each step.
        on_gpu = device.type == "cuda" and group["fused"]
        rate = float(group["lr"])
        group["lr"] = torch.tensor(rate, device=device) if on_gpu else rate
        if "capturable" in group:
            group["capturable"] = on_gpu


def set_learning_rates(optimizer: Optimizer, factor: float) -> None:
    """Set each learning rate to a multiple of its initial value."""
    for group in optimizer.param_groups:
        rate = group["initial_lr"] * factor
        if isinstance(group["lr"], torch.Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate
