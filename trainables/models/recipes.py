"""Default training recipe of each model, for keys that ``training`` of a sweep file omits.

Plain data without torch. Keys that are not in a recipe have the defaults of
:class:`~trainables.contract.config.TrainingConfig`, the papers' recipe for CIFAR.
``patience`` and ``longest`` belong to the sweep: see :mod:`sweeps.search.pilot`.
"""

from collections.abc import Mapping
from typing import Any, Final

from trainables.contract.config import OF_PILOT

Recipe = dict[str, Any]

_ADAM: Final[Recipe] = {"epochs": 30, "patience": 10, "optimizer": "adam", "lr": 1e-3}
_LONGER: Final[Recipe] = {**_ADAM, "longest": 120}
_ADAMW: Final[Recipe] = {**_ADAM, "optimizer": "adamw"}
_PIXELS: Final[Recipe] = {**_ADAMW, "epochs": 50, "patience": 15, "batch_size": 8}
_FROM_SCRATCH: Final[Recipe] = {**_ADAMW, "weight_decay": 0.05}
_FINE_TUNING: Final[Recipe] = {**_FROM_SCRATCH, "epochs": 10, "patience": 3, "lr": 1e-4}
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
    "gpool_cnn": {**_ADAM, "epochs": 12, "patience": 4, "batch_size": 64, "weight_decay": 0.0},
    "mlp": _LONGER,
    "small_cnn": {"epochs": 50, "patience": 15, "lr": 0.05},
    "small_fcn": _PIXELS,
    "table_mlp": _LONGER,
    "text_mlp": {**_ADAMW, "epochs": 10, "patience": 3, "lr": 5e-3, "weight_decay": 0.01},
}
_CIFAR: Final = "_cifar"  # suffix of the papers' networks, which use the defaults
_LEAST_STEPS: Final = 20  # minimum number of steps per epoch; else batches are made smaller
_LEAST_BATCH: Final = 16


def usual_recipe(model: str, options: Mapping[str, Any]) -> Recipe:
    """The default recipe of a model in the sweep file; a generic recipe for custom models."""
    if model in _RECIPES:
        return dict(_RECIPES[model])
    if model.endswith(_CIFAR) and ":" not in model:
        return {}
    if model.startswith("huggingface/") and options.get("pretrained", True):
        return dict(_ENCODER_OF_TEXTS)
    return dict(_FINE_TUNING if options.get("pretrained") else _FROM_SCRATCH)


def completed(given: Mapping[str, Any], usual: Recipe) -> Recipe:
    """The given values, completed by the default recipe.

    Learning rate and weight decay depend on the optimiser: if another optimiser is given, they are
    its usual values. If ``epochs`` is given, ``patience`` and ``longest``
    are not completed.
    """
    if "epochs" in given:
        usual = {key: value for key, value in usual.items() if key not in OF_PILOT}
    optimizer = given.get("optimizer", usual.get("optimizer", "sgd"))
    if optimizer != usual.get("optimizer", "sgd"):
        belongs = ("lr", "momentum", "nesterov", "weight_decay", "warmup_epochs")
        usual = {key: value for key, value in usual.items() if key not in belongs}
        usual |= {} if optimizer == "sgd" else {"lr": _ADAM["lr"]}
    return {**usual, **given}


def batch_size_for(usual: int, num_samples: int, num_workers: int = 1) -> int:
    """The default batch size, halved until an epoch has 20 steps, but at least 16 per worker."""
    size = usual
    while size // 2 >= _LEAST_BATCH * num_workers and num_samples < _LEAST_STEPS * size:
        size //= 2
    return size
