"""Train-time losses behind one interface, :class:`CalibrationLoss`."""

from trainables.losses.base import CalibrationLoss
from trainables.losses.registry import available_losses, hyperparameters, loss_class, make_loss

__all__ = [
    "CalibrationLoss",
    "available_losses",
    "hyperparameters",
    "loss_class",
    "make_loss",
]
