"""The losses, each by the name of its class, for anybody's training loop.

>>> calsweep.losses.DualFocal(gamma=5)(logits, targets)

A loss is a ``torch.nn.Module``. The number of classes is that of the logits; only losses that keep
something for each class (``AUCMargin``, ``AugmentedLagrangian``, ``HeuristicMultipliers``) and
``make_loss`` take ``num_classes``. Some losses are called with more than logits and targets, or
adapt after an epoch: see :class:`CalibrationLoss`.
"""

from __future__ import annotations

import inspect
from functools import cache
from typing import Any, Final

from torch import Tensor, nn

from trainables.losses import (
    CalibrationLoss,
    available_losses,
    hyperparameters,
    loss_class,
    make_loss,
)
from trainables.losses.registry import CATALOGUE

_KEEP_SOMETHING: Final = ("AUCMargin", "AugmentedLagrangian", "HeuristicMultipliers")
_NAMES: Final = {path.partition(":")[2]: name for name, path in CATALOGUE.ours.items()}

__all__ = ["CalibrationLoss", "available_losses", "hyperparameters", "make_loss"]


def __getattr__(name: str) -> type[nn.Module]:
    if name not in _NAMES:
        raise AttributeError(f"module 'calsweep.losses' has no attribute {name!r}")
    return _class(name)


def __dir__() -> list[str]:
    return sorted([*__all__, *_NAMES])


class _Alone(CalibrationLoss):
    """Learns the number of classes from each batch of logits, unless it is given."""

    def __init__(self, num_classes: int | None = None, **hyperparameters: Any) -> None:
        super().__init__(2 if num_classes is None else num_classes, **hyperparameters)
        self._told = num_classes is not None

    def _check(
        self, logits: Tensor, targets: Tensor, indices: Tensor | None, features: Tensor | None
    ) -> None:
        if not self._told and logits.dim() == 2 and logits.shape[1] >= 2:
            self.num_classes = logits.shape[1]
        super()._check(logits, targets, indices, features)


@cache
def _class(name: str) -> type[nn.Module]:
    kind = loss_class(_NAMES[name])
    if name in _KEEP_SOMETHING:
        return kind
    signature = inspect.signature(kind)
    classes = signature.parameters["num_classes"].replace(default=None, annotation="int | None")
    others = [each for key, each in signature.parameters.items() if key != "num_classes"]
    keywords = [each.replace(kind=each.KEYWORD_ONLY) for each in others]
    described = {
        "__doc__": kind.__doc__,
        "__module__": __name__,
        "__qualname__": name,
        "__signature__": signature.replace(parameters=[classes, *keywords]),
    }
    return type(name, (_Alone, kind), described)
