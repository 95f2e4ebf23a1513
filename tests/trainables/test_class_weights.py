"""Weighted classes: the gradient is that of the weighted mean, for every loss that has one."""

from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from sklearn.utils.class_weight import compute_class_weight

from sweeps.errors import UserError
from sweeps.planning.data_fit import fit_to_data
from tests.builders import make_sweep
from trainables.class_weights import can_be_weighted, class_weights, weighted
from trainables.config import TrainingConfig
from trainables.data import load_dataset
from trainables.data.base import Dataset, Split
from trainables.losses import available_losses, loss_class, make_loss
from trainables.models import make_model
from trainables.training import Trainer

K = 5
ABLE = [name for name in available_losses() if can_be_weighted(loss_class(name))]


def gradient(loss: torch.nn.Module, logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    (found,) = torch.autograd.grad(loss(logits, targets), logits)
    return found


def test_balanced_weights_are_scikit_learns() -> None:
    labels = np.minimum(np.random.default_rng(0).integers(0, 5, 50), 2)
    expected = compute_class_weight("balanced", classes=np.unique(labels), y=labels)
    found = class_weights("balanced", labels, 3)
    assert found[np.unique(labels)].tolist() == pytest.approx(expected)
    assert class_weights("balanced", np.array([0, 0, 2]), 3).tolist() == [0.5, 0.0, 1.0]
    assert class_weights((1.0, 3.0), labels, 2).tolist() == [1, 3]


def test_the_losses_that_can_be_weighted() -> None:
    assert {"cross_entropy", "focal", "dual_focal", "mbls", "adafocal", "cals_alm"} <= set(ABLE)
    assert not {"mmce", "mdca", "r_aurc", "crl", "kde_xe", "aucm", "mixup", "supcon"} & set(ABLE)
    assert not can_be_weighted(torch.nn.MultiMarginLoss)


def test_weighted_cross_entropy_is_torchs() -> None:
    draw = torch.Generator().manual_seed(0)
    logits = torch.randn(12, K, generator=draw, dtype=torch.float64, requires_grad=True)
    targets, weights = torch.arange(12) % K, torch.rand(K, generator=draw, dtype=torch.float64)
    (expected,) = torch.autograd.grad(F.cross_entropy(logits, targets, weights), logits)
    loss = make_loss("cross_entropy", K)
    (found,) = torch.autograd.grad(loss(weighted(logits, targets, weights), targets), logits)
    assert torch.allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize("name", ABLE)
def test_the_gradient_is_that_of_the_weighted_mean(name: str) -> None:
    draw = torch.Generator().manual_seed(1)
    logits = 3 * torch.randn(9, K, generator=draw, dtype=torch.float64)
    logits.requires_grad_()
    targets, weights = torch.arange(9) % K, torch.rand(K, generator=draw, dtype=torch.float64)
    loss = make_loss(name, K)
    total = sum(
        weights[y] * loss(z.unsqueeze(0), y.unsqueeze(0))
        for z, y in zip(logits, targets, strict=True)
    )
    assert isinstance(total, torch.Tensor)
    (expected,) = torch.autograd.grad(total / weights[targets].sum(), logits)
    (found,) = torch.autograd.grad(loss(weighted(logits, targets, weights), targets), logits)
    assert torch.allclose(found, expected, rtol=1e-9, atol=1e-12)


@pytest.fixture(scope="module")
def rare() -> Dataset:
    """Digits, of which a class is rare."""
    digits = load_dataset("digits", seed=0)
    kept = np.flatnonzero((digits.train.labels != 8) | (np.arange(len(digits.train)) % 25 == 0))
    train = Split(digits.train.inputs[kept], digits.train.labels[kept])
    return replace(digits, train=train)


def recall(data: Dataset, config: TrainingConfig) -> float:
    torch.manual_seed(0)
    model = make_model(
        "small_cnn", input_shape=data.input_shape, num_classes=10, samples=data.samples, width=8
    )
    cpu = torch.device("cpu")
    trainer = Trainer(model, make_loss("focal", 10), data, config, seed=0, device=cpu)
    for _ in range(config.epochs):
        trainer.train_epoch()
    logits, labels = trainer.predict(data.test)
    return float((logits.argmax(1) == labels)[labels == 8].double().mean())


def test_a_rare_class_is_found_more_often(rare: Dataset) -> None:
    config = TrainingConfig(epochs=5, batch_size=64, lr=0.05)
    plain = recall(rare, config)
    assert recall(rare, replace(config, class_weights="balanced")) > plain + 0.1
    assert recall(rare, replace(config, class_weights=(1.0,) * 10)) == plain


@pytest.mark.parametrize(
    ("training", "message"),
    [
        (
            {"class_weights": "balanced"},
            r"^training\.class_weights: mmce is no mean of terms of single.*; allowed: ada_dual_f",
        ),
        (
            {"class_weights": [1, 2]},
            r"^training\.class_weights has 2 weights, and there are 10 classes; allowed: balanced",
        ),
        ({"class_weights": "even"}, r"class_weights: 'even' is not allowed; allowed: balanced, or"),
        ({"class_weights": [1, -2]}, r"class_weights: .*allowed: balanced, or a list of a positi"),
    ],
)
def test_weights_that_are_wrong_are_refused(
    rare: Dataset, training: dict[str, object], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        fit_to_data(make_sweep(losses=["focal", "mmce"], training=training), rare)


def test_weights_stay_what_they_are_in_the_sweep_file(rare: Dataset) -> None:
    weights = [*range(1, 11)]
    sweep = make_sweep(training={"class_weights": weights})
    again = make_sweep(**sweep.model_dump(mode="json"))
    assert fit_to_data(again, rare).training.config().class_weights == tuple(map(float, weights))
