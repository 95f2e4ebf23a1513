"""The optimiser of a trial, and its learning rate over a training."""

import inspect
import math
from collections.abc import Callable, Iterable
from functools import cache
from typing import Final

import torch
from torch import nn
from torch.optim import Optimizer

from trainables.contract.config import TrainingConfig
from trainables.losses import CalibrationLoss

_FALL: Final = 1e-4  # share by which a loss must fall, as in PyTorch
_WRAPPED: Final = ("step", "zero_grad", "add_param_group", "state_dict", "load_state_dict")


def make_optimizer(model: nn.Module, loss: CalibrationLoss, config: TrainingConfig) -> Optimizer:
    """Creates the optimiser for the parameters of the model and of the loss.

    Each group stores its ``initial_lr``. The parameters of the loss have no weight decay. On a GPU,
    learning rates are tensors, so that a captured step reads them.
    """
    own = [{"weight_decay": 0.0, **group} for group in loss.parameter_groups()]
    groups: list[dict[str, object]] = [{"params": list(model.parameters())}, *own]
    for group in groups:
        group["initial_lr"] = group.get("lr", config.lr)
    kinds = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW}
    of_sgd = {"momentum": config.momentum, "nesterov": config.nesterov}
    optimizer = _uncompiled(kinds[config.optimizer])(
        groups,
        lr=config.lr,
        weight_decay=config.weight_decay,
        fused=True,
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
        on_gpu = device.type == "cuda"
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


def learning_rate_factor(
    config: TrainingConfig, epochs_done: float, val_nll: Iterable[float] = ()
) -> float:
    """Learning rate relative to its initial value after a fractional number of epochs.

    ``val_nll`` is the validation NLL after each epoch, which ``plateau`` needs.
    """
    if epochs_done < config.warmup_epochs:
        return min((epochs_done + 1e-3) / config.warmup_epochs, 1.0)
    if config.schedule == "step":
        passed = sum(epochs_done >= fraction * config.epochs for fraction in config.milestones)
        return config.lr_decay**passed
    if config.schedule == "plateau":
        return config.lr_decay ** plateaus(val_nll, config.plateau_patience)
    if config.schedule == "cosine":
        span = max(config.epochs - config.warmup_epochs, 1e-9)
        progress = min((epochs_done - config.warmup_epochs) / span, 1.0)
        return 0.5 * (1 + math.cos(math.pi * progress))
    return 1.0


def plateaus(losses: Iterable[float], patience: int) -> int:
    """How often the loss has not fallen in more than ``patience`` epochs in a row.

    Like ``ReduceLROnPlateau`` of PyTorch with its defaults.
    """
    lowest, waited, found = math.inf, 0, 0
    for loss in losses:
        if loss < lowest * (1 - _FALL):
            lowest, waited = loss, 0
        else:
            waited += 1
        if waited > patience:
            waited, found = 0, found + 1
    return found
