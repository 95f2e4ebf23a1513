"""Class weights, sample weights and soft labels: the gradient is that of the weighted mean."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from sklearn.utils.class_weight import compute_class_weight

from sweeps.errors import UserError
from sweeps.planning.data_fit import fit_to_data
from tests.builders import make_sweep
from trainables.contract.config import TrainingConfig
from trainables.data import Arrays, load_dataset
from trainables.data.core.base import Dataset, Split
from trainables.engine.class_weights import Weights, can_be_weighted, class_weights, weighted
from trainables.engine.training import Trainer
from trainables.losses import available_losses, loss_class, make_loss
from trainables.models import make_model

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
    soft = np.tile(np.float32([0.9, 0.1]), (2_000_000, 1))  # float32 sums would be 2 % off
    assert class_weights("balanced", soft, 2).tolist() == pytest.approx([0.5 / 0.9, 5.0], rel=1e-6)


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
    """Digits with a rare class."""
    digits = load_dataset("digits", seed=0)
    kept = np.flatnonzero((digits.train.labels != 8) | (np.arange(len(digits.train)) % 25 == 0))
    train = Split(digits.train.inputs[kept], digits.train.labels[kept])
    return replace(digits, train=train)


def trained(data: Dataset, config: TrainingConfig, loss: str) -> Trainer:
    torch.manual_seed(0)
    model = make_model(
        "small_cnn", input_shape=data.input_shape, num_classes=10, samples=data.samples, width=8
    )
    cpu = torch.device("cpu")
    trainer = Trainer(model, make_loss(loss, 10), data, config, seed=0, device=cpu)
    for _ in range(config.epochs):
        trainer.train_epoch()
    return trainer


def recall(data: Dataset, config: TrainingConfig) -> float:
    logits, labels = trained(data, config, "focal").predict(data.test)
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


@pytest.mark.parametrize("name", [name for name in ABLE if loss_class(name).soft_targets])
def test_weights_of_samples_and_of_the_classes_of_soft_labels(name: str) -> None:
    draw = torch.Generator().manual_seed(1)
    logits = 3 * torch.randn(9, K, generator=draw, dtype=torch.float64)
    logits.requires_grad_()
    of_classes = [0.5, 1, 2, 0, 4]
    of_samples = np.linspace(0, 2, 9, dtype=np.float32)
    soft = torch.rand(9, K, generator=draw).softmax(1)
    labels = np.arange(9, dtype=np.int64) % K
    train = Split(np.zeros((9, 2), np.float32), labels, soft.numpy(), of_samples)
    data = Dataset("made", train, train, train, tuple("abcde"), Arrays.unscaled((2,)))
    loss, total, mass = make_loss(name, K), torch.zeros(()), 0.0
    for z, shares, own in zip(logits, soft, of_samples.tolist(), strict=True):
        for k, weight in enumerate(of_classes):
            counts = own * float(shares[k]) * weight
            total = total + counts * loss(z.unsqueeze(0), torch.tensor([k]))
            mass += counts
    (expected,) = torch.autograd.grad(total / mass, logits)
    weights = Weights(tuple(of_classes), data, torch.device("cpu"))
    (found,) = torch.autograd.grad(loss(*weights.applied(logits, soft, torch.arange(9))), logits)
    assert torch.allclose(found, expected, rtol=1e-4, atol=1e-7)


def test_balanced_weights_of_soft_labels_count_shares() -> None:
    soft = np.array([[0.5, 0.5, 0.0], [1.0, 0.0, 0.0]], np.float32)
    assert class_weights("balanced", soft, 3).tolist() == pytest.approx([2 / 4.5, 2 / 1.5, 0])


def with_votes(digits: Dataset, **more: np.ndarray) -> Dataset:
    """Digits with the votes of ten annotators, who are wrong one time in four."""
    draw = np.random.default_rng(0)
    labels = digits.train.labels
    wrong = draw.random((10, len(labels))) < 0.25
    votes = np.where(wrong, draw.integers(0, 10, wrong.shape), labels)
    soft = np.mean([np.eye(10)[vote] for vote in votes], 0).astype(np.float32)
    return replace(digits, train=replace(digits.train, soft=soft, **more))


def test_soft_labels_are_learnt_from() -> None:
    digits = load_dataset("digits", seed=0)
    config = TrainingConfig(epochs=3, batch_size=64, lr=0.05)
    soft = with_votes(digits)
    logits, labels = trained(soft, config, "focal").predict(soft.test)
    assert (logits.argmax(1) == labels).double().mean() > 0.9
    one_hot = np.eye(10, dtype=np.float32)[digits.train.labels]
    certain = replace(digits, train=replace(digits.train, soft=one_hot))
    found, _ = trained(certain, config, "mbls").predict(digits.test)
    expected, _ = trained(digits, config, "mbls").predict(digits.test)
    torch.testing.assert_close(found, expected, rtol=1e-2, atol=1e-2)


def test_samples_with_weight_zero_have_no_gradient() -> None:
    digits = load_dataset("digits", seed=0)
    config = TrainingConfig(epochs=3, batch_size=64, lr=0.05)
    count = len(digits.train)
    wrong = np.arange(count) % 2 == 0
    labels = np.where(wrong, (digits.train.labels + 1) % 10, digits.train.labels)
    damaged = replace(digits, train=replace(digits.train, labels=labels))
    ones, right = np.ones(count, np.float32), (~wrong).astype(np.float32)
    same = replace(damaged, train=replace(damaged.train, weights=ones))
    kept = replace(damaged, train=replace(damaged.train, weights=right))
    plain, alike, spared = (
        trained(each, config, "focal").predict(digits.test)[0] for each in (damaged, same, kept)
    )
    assert torch.equal(plain, alike)
    truth = torch.from_numpy(digits.test.labels.copy())
    assert (spared.argmax(1) == truth).double().mean() > 0.9
    assert (plain.argmax(1) == truth).double().mean() < 0.8


@pytest.mark.parametrize("of_classes", [False, True])
def test_a_batch_with_weight_zero_changes_nothing(of_classes: bool) -> None:
    logits = torch.randn(4, 3, requires_grad=True)
    targets, none = torch.tensor([0, 1, 1, 0]), torch.zeros(4)
    weights = torch.tensor([0.0, 0.0, 1.0]) if of_classes else None
    loss = make_loss("focal", num_classes=3)
    value = loss(weighted(logits, targets, weights, None if of_classes else none), targets)
    (gradient,) = torch.autograd.grad(value, logits)
    assert torch.isfinite(value)
    assert torch.equal(gradient, torch.zeros_like(gradient))


@pytest.mark.parametrize("scale", [1e-44, 1e-30, 1e30])
def test_only_the_ratios_of_weights_matter(scale: float) -> None:
    logits = torch.randn(2, 3, requires_grad=True)
    targets, loss = torch.tensor([0, 1]), make_loss("focal", num_classes=3)
    gradients = [
        torch.autograd.grad(loss(weighted(logits, targets, None, each), targets), logits)[0]
        for each in (torch.tensor([0.0, 1.0]), torch.tensor([0.0, scale]))
    ]
    torch.testing.assert_close(*gradients)


@pytest.mark.parametrize(
    ("losses", "more", "message"),
    [
        (
            ["focal", "mmce", "mdca"],
            {},
            r"^losses: mmce, mdca is not defined for labels that are class probabilities, which "
            r"this dataset has; allowed: ada_dual_focal, .*mixup, and your own with soft_targets",
        ),
        (
            ["focal", "mixup"],
            {"weights": True},
            r"^dataset has weights of samples: mixup is no mean of terms of single samples",
        ),
    ],
)
def test_losses_that_are_not_for_such_targets_are_refused(
    losses: list[str], more: dict[str, Any], message: str
) -> None:
    digits = load_dataset("digits", seed=0)
    given = {name: np.ones(len(digits.train), np.float32) for name in more}
    with pytest.raises(UserError, match=message):
        fit_to_data(make_sweep(losses=losses), with_votes(digits, **given))
    fit_to_data(make_sweep(losses=losses[:1]), with_votes(digits, **given))


def test_weights_stay_what_they_are_in_the_sweep_file(rare: Dataset) -> None:
    weights = [*range(1, 11)]
    sweep = make_sweep(training={"class_weights": weights})
    again = make_sweep(**sweep.model_dump(mode="json"))
    assert fit_to_data(again, rare).training.config().class_weights == tuple(map(float, weights))
