"""How each model is usually trained: what a sweep file leaves out of ``training``.

Plain data, free of torch. Keys that a recipe does not name keep the defaults of
:class:`~trainables.contract.config.TrainingConfig`, the papers' recipe for CIFAR.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

Recipe = dict[str, Any]

_ADAM: Final[Recipe] = {"epochs": 30, "optimizer": "adam", "lr": 1e-3}
_PIXELS: Final[Recipe] = {"epochs": 50, "batch_size": 8, "optimizer": "adamw", "lr": 1e-3}
_FROM_SCRATCH: Final[Recipe] = {**_ADAM, "optimizer": "adamw", "weight_decay": 0.05}
_FINE_TUNING: Final[Recipe] = {**_FROM_SCRATCH, "epochs": 10, "lr": 1e-4}
_ENCODER_OF_TEXTS: Final[Recipe] = {
    "epochs": 4,
    "batch_size": 32,
    "optimizer": "adamw",
    "lr": 3e-5,
    "weight_decay": 0.01,
    "warmup_epochs": 0.4,
}

_RECIPES: Final[Mapping[str, Recipe]] = {
    "airbench_cifar": {
        "epochs": 10,
        "batch_size": 512,
        "lr": 0.8,
        "nesterov": True,
        "weight_decay": 1e-3,
        "warmup_epochs": 2.0,
    },
    "deeplabv3_mobilenet_v3_large": _PIXELS,
    "deeplabv3_resnet50": _PIXELS,
    "gpool_cnn": {**_ADAM, "epochs": 12, "batch_size": 64, "weight_decay": 0.0},
    "mlp": _ADAM,
    "small_cnn": {"epochs": 50, "lr": 0.05},
    "small_fcn": _PIXELS,
    "table_mlp": _ADAM,
    "text_mlp": {"epochs": 10, "optimizer": "adamw", "lr": 5e-3, "weight_decay": 0.01},
}
_CIFAR: Final = "_cifar"  # the ending of the papers' networks, whose recipe the defaults are
_LEAST_STEPS: Final = 20  # of an epoch, below which batches are made smaller
_LEAST_BATCH: Final = 16


def usual_recipe(model: str, options: Mapping[str, Any]) -> Recipe:
    """How a model is usually trained; custom models as most networks can be.

    Args:
        model: Its name in the sweep file.
        options: Its options.
    """
    if model in _RECIPES:
        return dict(_RECIPES[model])
    if model.endswith(_CIFAR) and ":" not in model:
        return {}
    if model.startswith("huggingface/") and options.get("pretrained", True):
        return dict(_ENCODER_OF_TEXTS)
    return dict(_FINE_TUNING if options.get("pretrained") else _FROM_SCRATCH)


def completed(given: Mapping[str, Any], usual: Recipe) -> Recipe:
    """What is given, and of the usual recipe what fits it.

    The learning rate and the weight decay belong to the optimiser: if another one is given, they
    are those that usually go with it.
    """
    optimizer = given.get("optimizer", usual.get("optimizer", "sgd"))
    if optimizer != usual.get("optimizer", "sgd"):
        belongs = ("lr", "momentum", "nesterov", "weight_decay", "warmup_epochs")
        usual = {key: value for key, value in usual.items() if key not in belongs}
        usual |= {} if optimizer == "sgd" else {"lr": _ADAM["lr"]}
    return {**usual, **given}


def batch_size_for(usual: int, num_samples: int, num_workers: int = 1) -> int:
    """The usual batch size, halved until an epoch has 20 steps, but not below 16 per worker."""
    size = usual
    while size // 2 >= _LEAST_BATCH * num_workers and num_samples < _LEAST_STEPS * size:
        size //= 2
    return size
