"""The learning rate over a training."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final

from trainables.contract.config import TrainingConfig

_FALL: Final = 1e-4  # share by which a loss must fall, as in PyTorch


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
