"""Train-time losses behind one interface, :class:`CalibrationLoss`."""

from trainables.losses.base import CalibrationLoss
from trainables.losses.registry import available_losses, hyperparameters, loss_class, make_loss
from trainables.plugins.arguments import check_integer, check_number

__all__ = [
    "CalibrationLoss",
    "available_losses",
    "check_integer",
    "check_number",
    "hyperparameters",
    "loss_class",
    "make_loss",
]
