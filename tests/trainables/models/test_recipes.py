"""The default training recipes."""

import pytest

from trainables.contract.config import OF_PILOT, TrainingConfig
from trainables.models import available_models
from trainables.models.recipes import batch_size_for, completed, usual_recipe


@pytest.mark.parametrize("name", [*available_models(), "timm/resnet18", "own.module:model"])
def test_recipes_are_recipes(name: str) -> None:
    recipe = usual_recipe(name, {})
    patience, longest = (recipe.pop(key, None) for key in OF_PILOT)
    assert longest is None or longest >= 2 * recipe["epochs"]
    assert patience is None or patience < recipe["epochs"]
    assert TrainingConfig(**recipe).epochs <= 200


def test_pretrained_weights_are_tuned_gently() -> None:
    scratch, tuned = (usual_recipe("timm/resnet18", {"pretrained": p}) for p in (False, True))
    assert tuned["lr"] < scratch["lr"]
    assert tuned["epochs"] < scratch["epochs"]


def test_a_learning_rate_is_not_used_with_another_optimizer() -> None:
    usual = {"epochs": 5, "optimizer": "adamw", "lr": 0.01, "weight_decay": 0.1}
    assert completed({}, usual) == usual
    assert completed({"optimizer": "adamw", "lr": 1.0}, usual) == {**usual, "lr": 1.0}
    assert completed({"optimizer": "sgd"}, usual) == {"epochs": 5, "optimizer": "sgd"}
    assert completed({"optimizer": "adam"}, {"lr": 0.1}) == {"optimizer": "adam", "lr": 1e-3}


def test_given_epochs_have_no_early_end() -> None:
    usual = {"epochs": 30, "patience": 5}
    assert completed({}, usual) == usual
    assert completed({"epochs": 12}, usual) == {"epochs": 12}
    assert completed({"epochs": 12, "patience": 2}, usual) == {"epochs": 12, "patience": 2}


@pytest.mark.parametrize(
    ("usual", "samples", "workers", "expected"),
    [(128, 9_000, 1, 128), (128, 1_300, 1, 64), (128, 100, 1, 16), (128, 100, 4, 64), (8, 9, 1, 8)],
)  # fmt: skip
def test_small_data_have_small_batches(
    usual: int, samples: int, workers: int, expected: int
) -> None:
    assert batch_size_for(usual, samples, workers) == expected
