"""Values and gradients of the authors' code."""

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tests.golden import inputs, recorded
from trainables.losses import CalibrationLoss, make_loss
from trainables.losses.aucm import AUCMargin
from trainables.losses.cals import penalty
from trainables.losses.soft_rank import soft_rank


@pytest.fixture(scope="module")
def golden() -> dict[str, dict[str, list[dict[str, Any]]]]:
    return recorded()


@pytest.fixture
def logits() -> Tensor:
    return inputs()[0].requires_grad_()


@pytest.fixture
def targets() -> Tensor:
    return inputs()[1]


def assert_close(found: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-8)


def assert_as_recorded(value: Tensor, logits: Tensor, entry: dict[str, Any]) -> None:
    (gradient,) = torch.autograd.grad(value, logits)
    expected = torch.tensor(entry["value"], dtype=torch.float64)
    assert_close(value.detach(), expected)
    for found, key in ((gradient.abs().sum(), "grad_abs_sum"), (gradient.norm(), "grad_l2")):
        assert_close(found, torch.tensor(entry[key]).double())
    first = torch.tensor(entry["grad_row0_first5"], dtype=torch.float64)
    assert_close(gradient[0, :5], first)


@pytest.mark.parametrize(
    ("name", "hyperparameters", "key"),
    [
        ("label_smoothing", {"alpha": 0.05}, "label_smoothing"),
        ("brier", {}, "brier_loss"),
        ("focal", {"gamma": 3}, "focal_mean"),
        ("focal_sample_dependent", {}, "flsd53_mean"),
        ("inverse_focal", {"gamma": 2}, "inverse_focal_mean"),
        ("dual_focal", {"gamma": 5}, "dual_focal_mean"),
        ("mmce", {"lam": 2}, "ce_plus_mmce"),
        ("ecp", {"lam": 0.1 / 10}, "ecp_penalty_entropy"),  # the authors' code divides by K = 10
        ("mbls", {"margin": 6, "lam": 0.1}, "mbls_logit_margin_l1"),
        ("cpc", {"lam_discrimination": 0.1, "lam_exclusion": 1}, "cpc"),
        ("mdca", {"gamma": 1, "beta": 1}, "focal_plus_mdca"),
        ("mdca", {"gamma": 0, "beta": 1}, "ce_plus_mdca"),
        ("logitnorm", {"temperature": 0.04}, "logitnorm"),
        ("r_aurc", {"lam": 0.3, "epsilon": 0.05}, "raurc_softrank_single_softmax"),
        (
            "r_aurc",
            {"lam": 0.3, "epsilon": 0.05, "confidence": "negative_entropy"},
            "raurc_softrank_mean",
        ),
    ],
)
def test_loss(
    name: str,
    hyperparameters: dict[str, Any],
    key: str,
    golden: dict[str, Any],
    logits: Tensor,
    targets: Tensor,
) -> None:
    value = make_loss(name, 10, **hyperparameters)(logits, targets)
    assert_as_recorded(value, logits, golden["losses"][key][0])


def test_cross_entropy(golden: dict[str, Any], logits: Tensor, targets: Tensor) -> None:
    value = 64 * make_loss("cross_entropy", 10)(logits, targets)  # recorded as a sum
    assert_as_recorded(value, logits, golden["losses"]["cross_entropy_sum"][0])


def test_kernel_calibration_error(golden: dict[str, Any], logits: Tensor, targets: Tensor) -> None:
    loss = make_loss("kde_xe", 10, lam=1, bandwidth=0.02, p=2)
    penalty_alone = loss(logits, targets) - F.cross_entropy(logits, targets)
    assert_as_recorded(penalty_alone, logits, golden["losses"]["ece_kde_loss"][0])


def test_supcon(golden: dict[str, Any], logits: Tensor, targets: Tensor) -> None:
    # Recorded on the logits as features; the second half of the batch is the second view.
    loss = make_loss("supcon", 10, temperature=0.1, base_temperature=0.07)
    value = loss(logits.detach(), targets[:32].repeat(2), features=logits)
    assert_as_recorded(value, logits, golden["losses"]["supcon_on_normalized_logits"][0])


def test_crl(golden: dict[str, Any], logits: Tensor, targets: Tensor) -> None:
    entry = golden["losses"]["crl"][0]
    loss = make_loss("crl", 10, lam=1).double()
    loss.on_train_begin(64)
    loss.load_state_dict(
        {
            "times_right": torch.tensor(entry["correctness_in"]),
            "epochs": torch.tensor(entry["max_correctness"]),
        }
    )
    order = torch.tensor(entry["order"])
    assert_as_recorded(loss(logits[order], targets[order], indices=order), logits, entry)


def test_cals_alm(golden: dict[str, Any], logits: Tensor, targets: Tensor) -> None:
    entry = golden["losses"]["cals_alm"][0]
    loss = make_loss("cals_alm", 10, margin=10).double()
    set_buffers(loss, lam=entry["lambda_in"], rho=entry["rho_in"])
    assert_as_recorded(loss(logits, targets), logits, entry)


def test_cals_hr(golden: dict[str, Any], logits: Tensor, targets: Tensor) -> None:
    entry = golden["losses"]["cals_hr_logit_margin_plus"][0]
    loss = make_loss("cals_hr", 10, margin=6).double()
    set_buffers(loss, lam=entry["lambda_in"])
    assert_as_recorded(loss(logits, targets), logits, entry)
    for scale, key in (
        (1.0, "lambda_after1"),
        (1.5, "lambda_after2_logits_x1p5"),
        (0.5, "lambda_after3_logits_x0p5"),
    ):
        loss.on_validation_end(logits.detach() * scale, targets)
        expected = torch.tensor(entry[key], dtype=torch.float64)
        assert_close(dict(loss.named_buffers())["lam"], expected)


def test_adafocal(golden: dict[str, Any], logits: Tensor, targets: Tensor) -> None:
    entry = golden["losses"]["adafocal"][0]
    loss = make_loss("adafocal", 10, lam=1).double()
    loss.on_validation_end(logits.detach(), targets)
    buffers = dict(loss.named_buffers())
    expected = torch.tensor(entry["gammas"], dtype=torch.float64)
    assert_close(buffers["gamma"], expected)
    expected = torch.tensor(entry["upper"][:-1], dtype=torch.float64)
    assert_close(buffers["edges"], expected)
    assert_as_recorded(64 * loss(logits, targets), logits, entry)


def test_aucm(golden: dict[str, Any], logits: Tensor, targets: Tensor) -> None:
    # Recorded for one binary problem: is the prediction right?
    entry = golden["losses"]["libauc_aucm"][0]
    confidence, predicted = logits.softmax(1).max(1, keepdim=True)
    loss = AUCMargin(2, margin=1.0).double()
    duals = [loss.a, loss.b, loss.alpha]
    for dual, key in zip(duals, ("a", "b", "alpha"), strict=True):
        dual.data.fill_(entry["hyper"][key])
    right = (predicted == targets.unsqueeze(1)).double()
    value = loss.of_problems(confidence, right).mean()
    for dual, key in zip(duals, ("grad_a", "grad_b", "grad_alpha"), strict=True):
        (gradient,) = torch.autograd.grad(value, dual, retain_graph=True)
        assert_close(gradient, torch.tensor([entry[key]], dtype=torch.float64))
    assert_as_recorded(value, logits, entry)


@pytest.mark.parametrize("index", [0, 1])
def test_soft_rank(index: int, golden: dict[str, Any], logits: Tensor) -> None:
    entry = golden["softrank"]["soft_rank_l2"][index]
    scores = logits.softmax(1).max(1).values if entry["vector"] == "max_softmax" else logits[0]
    ranks = soft_rank(scores, float(entry["regularization_strength"]))
    weights = torch.from_numpy(np.random.default_rng(11).standard_normal(len(scores)))
    (gradient,) = torch.autograd.grad(ranks, scores, weights)
    for found, key in ((ranks, "rank"), (gradient, "vjp")):
        expected = torch.tensor(entry["torchsort"][key], dtype=torch.float64)
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)


def test_cals_penalties(golden: dict[str, Any]) -> None:
    for entry in golden["other"]["cals_penalty_functions"]:
        kind = entry["hyper"]["name"]
        z = torch.tensor(entry["h"], dtype=torch.float64, requires_grad=True)
        lam = torch.tensor(entry["lam"], dtype=torch.float64)
        rho = torch.full_like(lam, entry["hyper"]["rho"])
        value = penalty(kind, z, rho, lam)
        (slope,) = torch.autograd.grad(value.sum(), z)
        assert_close(value.detach(), torch.tensor(entry["penalty"], dtype=torch.float64))
        assert_close(slope, torch.tensor(entry["grad"], dtype=torch.float64))


def set_buffers(loss: CalibrationLoss, **values: list[float]) -> None:
    buffers = dict(loss.named_buffers())
    for name, value in values.items():
        buffers[name].copy_(torch.tensor(value, dtype=torch.float64))
