"""Tests of all losses."""

import re
from collections.abc import Callable
from itertools import product

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from trainables.losses import (
    CalibrationLoss,
    available_losses,
    hyperparameters,
    loss_class,
    make_loss,
)

BuildLoss = Callable[..., CalibrationLoss]
Batch = dict[str, Tensor]

CRL_PAIRS_NEIGHBOURS = {"crl"}


@pytest.mark.parametrize("name", available_losses())
def test_has_a_source_and_a_formula(name: str) -> None:
    kind = loss_class(name)
    assert issubclass(kind, CalibrationLoss)
    assert kind.source
    assert kind.formula
    assert "\n" not in kind.formula


@pytest.mark.parametrize("name", available_losses())
def test_gradient_is_the_derivative(name: str, build: BuildLoss, batch: Batch) -> None:
    loss = build(name, 5)
    logits, features = batch["logits"].requires_grad_(), batch["features"].requires_grad_()

    def value(logits: Tensor, features: Tensor) -> Tensor:
        result: Tensor = loss(**{**batch, "logits": logits, "features": features})
        return result

    assert value(logits, features).shape == ()
    assert torch.autograd.gradcheck(value, (logits, features))
    assert torch.autograd.gradgradcheck(value, (logits, features), fast_mode=True)


KINDS_OF_BATCHES = list(
    product(
        (2, 7),  # classes
        (1, 2, 16),  # samples
        (torch.float32, torch.bfloat16),
        (0.0, 30.0, 1e4),  # scales of the logits: all equal, large, extreme
    )
)


@pytest.mark.parametrize("name", available_losses())
def test_finite(name: str, build: BuildLoss) -> None:
    for kind in KINDS_OF_BATCHES:
        num_classes, count, dtype, scale = kind
        loss = build(name, num_classes, num_samples=count).float()
        logits = (torch.randn(count, num_classes).sign() * scale).to(dtype).requires_grad_()
        features = (torch.randn(count, 3) * scale).to(dtype).requires_grad_()
        targets = torch.zeros(count, dtype=torch.int64)
        targets[::2] = 1
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=dtype == torch.bfloat16):
            value = loss(logits, targets, indices=torch.arange(count), features=features)
        assert value.dtype == torch.float32, kind
        value.backward()
        reached = features if loss.needs_features else logits
        parameters = [p.grad for p in loss.parameters() if p.grad is not None]
        for each in (value, reached.grad, *parameters):
            assert each is not None and torch.isfinite(each).all(), kind


@pytest.mark.parametrize("name", available_losses())
def test_finite_at_certainty(name: str, build: BuildLoss) -> None:
    targets = torch.arange(8) % 3
    for sure_of in (targets, (targets + 1) % 4):  # p_y = 1 and 0
        loss = build(name, 4).float()
        logits = (F.one_hot(sure_of, 4) * 1e4).float().requires_grad_()
        value = loss(logits, targets, indices=torch.arange(8), features=logits)
        value.backward()
        assert torch.isfinite(value)
        assert logits.grad is not None
        assert torch.isfinite(logits.grad).all()


def test_powers_below_one_are_finite_at_certainty(build: BuildLoss) -> None:
    # The derivative of (1 − p)^γ is infinite there.
    for name in ("focal", "dual_focal", "focal_calibration", "mdca"):
        logits = torch.tensor([[1e4, 0, 0], [0, 1e4, 0]], requires_grad=True)
        value = build(name, 3, gamma=0.5).float()(logits, torch.tensor([0, 1]))
        (gradient,) = torch.autograd.grad(value, logits)
        assert torch.isfinite(value)
        assert torch.isfinite(gradient).all(), name


@pytest.mark.parametrize("name", available_losses())
def test_finite_at_its_bounds(name: str, build: BuildLoss) -> None:
    bounds = loss_class(name).bounds
    assert bounds.keys() >= {
        key for key, default in hyperparameters(name).items() if isinstance(default, float)
    }
    for key, allowed in bounds.items():
        message = re.escape(f"{key} must be in {allowed.interval}, got -1")
        with pytest.raises(ValueError, match=message):
            make_loss(name, 7, **{key: -1})
        for end in (allowed.low + allowed.open_low * 1e-9, allowed.high):
            loss = build(name, 7, num_samples=16, **{key: end}).float()
            logits = torch.randn(16, 7).mul_(10).requires_grad_()
            features = torch.randn(16, 3).requires_grad_()
            targets = torch.arange(16) % 7
            value = loss(logits, targets, indices=torch.arange(16), features=features)
            value.backward()
            reached = features if loss.needs_features else logits
            assert reached.grad is not None
            assert torch.isfinite(value) and torch.isfinite(reached.grad).all(), (key, end)


@pytest.mark.parametrize("name", available_losses())
def test_half_precision_is_computed_in_float32(name: str, build: BuildLoss, batch: Batch) -> None:
    loss = build(name, 5).float()
    logits, features = batch["logits"].bfloat16(), batch["features"].bfloat16()
    others = {"targets": batch["targets"], "indices": batch["indices"]}
    with torch.autocast("cpu", dtype=torch.bfloat16):
        low = loss(logits=logits, features=features, **others)
    full = loss(logits=logits.float(), features=features.float(), **others)
    assert torch.equal(low, full)


@pytest.mark.parametrize("name", sorted(set(available_losses()) - CRL_PAIRS_NEIGHBOURS))
def test_order_of_samples_does_not_matter(name: str, build: BuildLoss, batch: Batch) -> None:
    loss = build(name, 5)
    order = torch.randperm(8)
    shuffled = loss(**{key: value[order] for key, value in batch.items()})
    torch.testing.assert_close(shuffled, loss(**batch))


@pytest.mark.parametrize("name", sorted(set(available_losses()) - {"logitnorm", "supcon"}))
def test_adding_to_all_logits_does_not_matter(name: str, build: BuildLoss, batch: Batch) -> None:
    loss = build(name, 5)
    before = loss(**batch)
    torch.testing.assert_close(loss(**{**batch, "logits": batch["logits"] + 100}), before)


@pytest.mark.parametrize(
    ("name", "hyperparameters"),
    [
        ("label_smoothing", {"alpha": 0}),
        ("focal", {"gamma": 0}),
        ("inverse_focal", {"gamma": 0}),
        ("dual_focal", {"gamma": 0}),
        ("focal_calibration", {"gamma": 0, "lam": 0}),
        ("mmce", {"lam": 0}),
        ("ecp", {"lam": 0}),
        ("mbls", {"lam": 0}),
        ("cpc", {"lam_discrimination": 0, "lam_exclusion": 0}),
        ("mdca", {"gamma": 0, "beta": 0}),
        ("crl", {"lam": 0}),
        ("kde_xe", {"lam": 0}),
        ("r_aurc", {"lam": 0}),
        ("mixup", {"alpha": 0.3}),
        ("mbls", {"margin": 1e3}),
        ("cals_hr", {"margin": 1e3}),
    ],
    ids=str,
)
def test_without_its_penalty_it_is_cross_entropy(
    name: str, hyperparameters: dict[str, float], build: BuildLoss, batch: Batch
) -> None:
    logits = batch["logits"].requires_grad_()
    value = build(name, 5, **hyperparameters)(**batch)
    (gradient,) = torch.autograd.grad(value, logits)
    expected = F.cross_entropy(logits, batch["targets"])
    torch.testing.assert_close(value, expected)
    torch.testing.assert_close(gradient, *torch.autograd.grad(expected, logits))


@pytest.mark.parametrize("name", available_losses())
def test_state_dict_restores_the_loss(name: str, build: BuildLoss, batch: Batch) -> None:
    loss = build(name, 5)
    loss(**batch)
    loss.on_step_end()
    loss.on_epoch_end()
    loss.on_validation_end(batch["logits"], batch["targets"])
    restored = make_loss(name, 5).double()
    restored.load_state_dict(loss.state_dict())
    assert torch.equal(restored(**batch), loss(**batch))
    for mine, theirs in zip(loss.buffers(), restored.buffers(), strict=True):
        assert torch.equal(mine, theirs)


@pytest.mark.parametrize("name", available_losses())
def test_keeps_its_inputs(name: str, build: BuildLoss, batch: Batch) -> None:
    copies = {key: value.clone() for key, value in batch.items()}
    build(name, 5)(**batch)
    assert all(torch.equal(batch[key], copies[key]) for key in batch)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"logits": torch.zeros(8, 4)}, ValueError, r"shape \(N, 5\) with N >= 1, got \(8, 4\)"),
        ({"logits": torch.zeros(8)}, ValueError, r"shape \(N, 5\)"),
        ({"logits": torch.zeros(0, 5)}, ValueError, r"N >= 1, got \(0, 5\)"),
        ({"logits": torch.zeros(8, 5).long()}, TypeError, "logits must be floating point"),
        ({"targets": torch.zeros(7).long()}, ValueError, r"shape \(8,\).*got \(7,\)"),
        ({"targets": torch.zeros(8, 1).long()}, ValueError, r"got \(8, 1\)"),
        ({"targets": torch.zeros(8).int()}, TypeError, "must be int64.*, got torch.int32"),
        ({"targets": torch.full((8,), 5)}, ValueError, r"in \[0, 5\), got 5"),
        ({"targets": torch.full((8,), -100)}, ValueError, r"in \[0, 5\), got -100"),
        ({"indices": torch.arange(7)}, ValueError, r"indices must be int64 of shape \(8,\)"),
        ({"indices": torch.zeros(8)}, ValueError, "indices must be int64"),
    ],
)
def test_refuses_wrong_arguments(  # in the base class, for all losses
    change: Batch,
    error: type[Exception],
    message: str,
    build: BuildLoss,
    batch: Batch,
) -> None:
    with pytest.raises(error, match=message):
        build("crl", 5)(**{**batch, **change})


SOFT = [name for name in available_losses() if loss_class(name).soft_targets]


def test_soft_targets_are_for_losses_of_single_samples(build: BuildLoss, batch: Batch) -> None:
    across = {
        *("aucm", "avuc", "crl", "dece", "kde_xe", "mdca", "mmce", "r_aurc", "refinement"),
        *("soft_avuc", "soft_ece", "supcon"),
    }
    assert set(SOFT) == set(available_losses()) - across
    with pytest.raises(TypeError, match="targets must be int64"):
        build("mmce", 5)(**{**batch, "targets": torch.full((8, 5), 0.2)})


@pytest.mark.parametrize("name", SOFT)
def test_soft_targets_are_an_expectation_over_the_label(
    name: str, build: BuildLoss, batch: Batch
) -> None:
    loss, logits = build(name, 5), batch["logits"].requires_grad_()
    shares = torch.rand(8, 5, dtype=torch.float64)
    shares[:2, :3] = 0
    shares /= shares.sum(1, keepdim=True)
    terms = [
        share * loss(logits[row : row + 1], torch.tensor([k]))
        for row, sample in enumerate(shares.tolist())
        for k, share in enumerate(sample)
    ]
    expected = torch.stack(terms).sum() / 8
    value = loss(**{**batch, "targets": shares})
    torch.testing.assert_close(value, expected)
    found, wanted = (torch.autograd.grad(each, logits)[0] for each in (value, expected))
    torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize("penalty", ["p2", "p3"])
def test_soft_targets_of_every_penalty(penalty: str, build: BuildLoss, batch: Batch) -> None:
    loss = build("cals_alm", 5, penalty=penalty, margin=2.0)
    one_hot = F.one_hot(batch["targets"], 5).double()
    torch.testing.assert_close(loss(**{**batch, "targets": one_hot}), loss(**batch))


@pytest.mark.parametrize("name", SOFT)
def test_soft_targets_are_finite_at_certainty(name: str, build: BuildLoss) -> None:
    shares = F.one_hot(torch.arange(8) % 4, 4).float().lerp(torch.full((8, 4), 0.25), 0.5)
    for scale in (0.0, 30.0, 1e4):
        logits = (F.one_hot(torch.arange(8) % 3, 4) * scale).float().requires_grad_()
        value = build(name, 4).float()(logits, shares)
        value.backward()
        assert torch.isfinite(value)
        assert logits.grad is not None
        assert torch.isfinite(logits.grad).all()


@pytest.mark.parametrize("num_classes", [1, 0, -3])
def test_needs_two_classes(num_classes: int) -> None:
    with pytest.raises(ValueError, match=f"num_classes must be at least 2, got {num_classes}"):
        make_loss("focal", num_classes)
