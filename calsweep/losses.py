"""The losses by class name, for your own training loop.

>>> calsweep.losses.DualFocal(gamma=5)(logits, targets)

A loss is a ``torch.nn.Module``. It takes the number of classes from the logits. Only losses with
state per class (``AUCMargin``, ``AugmentedLagrangian``, ``HeuristicMultipliers``) and ``make_loss``
need ``num_classes``. Some losses need more than logits and targets, or adapt after each epoch: see
:class:`CalibrationLoss`.
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

_STATE_PER_CLASS: Final = ("AUCMargin", "AugmentedLagrangian", "HeuristicMultipliers")
_NAMES: Final = {path.partition(":")[2]: name for name, path in CATALOGUE.ours.items()}

__all__ = ["CalibrationLoss", "available_losses", "hyperparameters", "make_loss"]


def __getattr__(name: str) -> type[nn.Module]:
    if name not in _NAMES:
        raise AttributeError(f"module 'calsweep.losses' has no attribute {name!r}")
    return _class(name)


def __dir__() -> list[str]:
    return sorted([*__all__, *_NAMES])


class _Standalone(CalibrationLoss):
    """Infers the number of classes from each batch of logits, unless it is given."""

    def __init__(self, num_classes: int | None = None, **hyperparameters: Any) -> None:
        super().__init__(2 if num_classes is None else num_classes, **hyperparameters)
        self._fixed = num_classes is not None

    def _check(
        self, logits: Tensor, targets: Tensor, indices: Tensor | None, features: Tensor | None
    ) -> None:
        if not self._fixed and logits.dim() == 2 and logits.shape[1] >= 2:
            self.num_classes = logits.shape[1]
        super()._check(logits, targets, indices, features)


@cache
def _class(name: str) -> type[nn.Module]:
    kind = loss_class(_NAMES[name])
    if name in _STATE_PER_CLASS:
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
    return type(name, (_Standalone, kind), described)
