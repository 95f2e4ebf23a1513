"""Losses by name."""

import sys
from importlib.metadata import EntryPoint
from typing import Annotated, Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from trainables.losses import (
    CalibrationLoss,
    available_losses,
    hyperparameters,
    loss_class,
    make_loss,
    registry,
)
from trainables.plugins import components

NAMES = (
    "ada_dual_focal", "adafocal", "aucm", "avuc", "brier", "cals_alm", "cals_hr", "cpc", "crl",
    "cross_entropy", "dece", "dual_focal", "ecp", "focal", "focal_calibration",
    "focal_sample_dependent", "inverse_focal", "kde_xe", "label_smoothing", "logitnorm", "maxsup",
    "mbls", "mdca", "mixup", "mmce", "r_aurc", "refinement", "soft_avuc", "soft_ece", "supcon",
)  # fmt: skip


class Doubled(CalibrationLoss):
    """A custom loss."""

    def __init__(self, num_classes: int, factor: float = 2.0) -> None:
        super().__init__(num_classes)
        self.factor = factor

    def compute(
        self, logits: Tensor, targets: Tensor, indices: Tensor | None, features: Tensor | None
    ) -> Tensor:
        return self.factor * F.cross_entropy(logits, targets)


@pytest.fixture
def own_module(monkeypatch: pytest.MonkeyPatch) -> str:
    """An importable name of this file."""
    monkeypatch.setitem(sys.modules, "somebodys_losses", sys.modules[__name__])
    return "somebodys_losses"


def test_all_losses_are_registered() -> None:
    assert available_losses() == NAMES


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("cross_entropy", {}),
        ("focal_sample_dependent", {}),
        ("label_smoothing", {"alpha": 0.05}),
        ("focal", {"gamma": 3.0}),
        ("inverse_focal", {"gamma": 2.0}),
        ("dual_focal", {"gamma": 5.0, "dual": "largest"}),
        ("focal_calibration", {"gamma": 3.0, "lam": 0.5, "p": 2}),
        ("mbls", {"margin": 10.0, "lam": 0.1}),
        ("cpc", {"lam_discrimination": 10.0, "lam_exclusion": 1.0}),
        ("r_aurc", {"lam": 0.5, "epsilon": 0.05, "confidence": "max_probability"}),
        (
            "cals_alm",
            {
                "margin": 10.0,
                "lam": 1e-6,
                "rho": 1.0,
                "growth": 1.2,
                "improvement": 0.9,
                "period": 10,
                "penalty": "phr",
            },
        ),
    ],
)
def test_hyperparameters_and_defaults(name: str, expected: dict[str, Any]) -> None:
    assert hyperparameters(name) == expected


@pytest.mark.parametrize(
    ("paper", "name"),
    [
        ("CE", "cross_entropy"),
        ("LS", "label_smoothing"),
        ("FL", "focal"),
        ("DFL", "dual_focal"),
        ("fcl", "focal_calibration"),
        ("FLSD-53", "focal_sample_dependent"),
        ("FLSD", "focal_sample_dependent"),
    ],
)
def test_a_loss_is_found_by_its_name_in_papers(paper: str, name: str) -> None:
    assert loss_class(paper) is loss_class(name)


@pytest.mark.parametrize("name", NAMES)
def test_defaults_are_allowed(name: str) -> None:
    assert isinstance(make_loss(name, 3, **hyperparameters(name)), loss_class(name))


@pytest.mark.parametrize(
    ("name", "arguments", "error", "message"),
    [
        (
            "focul",
            {},
            ValueError,
            r"unknown loss 'focul' \(did you mean 'focal'\?\); available: ada",
        ),
        ("", {}, ValueError, "unknown loss ''"),
        (
            "focal",
            {"gama": 1},
            ValueError,
            r"'focal' has no hyperparameter 'gama' \(did you mean 'gamma'\?\); it has: gamma \(def",
        ),
        ("brier", {"gamma": 1}, ValueError, "no hyperparameter 'gamma'; it has: none"),
        ("focal", {"gamma": -1}, ValueError, r"loss 'focal': gamma must be in \[0, 100\], got -1"),
        ("focal", {"gamma": float("nan")}, ValueError, "got nan"),
        ("focal", {"gamma": float("inf")}, ValueError, "got inf"),
        ("focal", {"gamma": "3"}, TypeError, "loss 'focal': gamma must be a number, got '3'"),
        ("focal", {"gamma": True}, TypeError, "gamma must be a number, got True"),
        ("label_smoothing", {"alpha": 1.1}, ValueError, r"alpha must be in \[0, 1\], got 1.1"),
        ("cals_alm", {"margin": 0}, ValueError, r"margin must be in \(0, 1000\], got 0"),
        ("cals_alm", {"penalty": "p4"}, ValueError, "penalty must be one of phr, p2, p3, got 'p4'"),
        ("cals_alm", {"period": 1.5}, TypeError, "period must be an integer, got 1.5"),
        ("cals_alm", {"growth": 0.9}, ValueError, r"growth must be in \[1, 100\], got 0.9"),
        ("r_aurc", {"lam": 2}, ValueError, r"lam must be in \[0, 1\], got 2"),
        (
            "r_aurc",
            {"confidence": "max_prob"},
            ValueError,
            r"confidence must be one of .* \(did you mean 'max_probability'\?\)",
        ),
        ("focal_calibration", {"p": 3}, ValueError, "p must be 1 or 2, got 3"),
        ("dual_focal", {"dual": "secnd"}, ValueError, "did you mean 'second'"),
        ("dual_focal", {"dual": 2}, ValueError, r"dual must be in \[0, 1\], got 2"),
        ("kde_xe", {"p": 3}, ValueError, "p must be 1 or 2, got 3"),
        ("kde_xe", {"bandwidth": 0}, ValueError, r"bandwidth must be in \[1e-05, 1\], got 0"),
        ("kde_xe", {"bandwidth": "loo"}, ValueError, "be likelihood or a number .*, got 'loo'"),
        (
            "supcon",
            {"temperature": 0},
            ValueError,
            r"temperature must be in \[0.0001, 100\]",
        ),
    ],
)
def test_refuses(
    name: str, arguments: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        make_loss(name, 3, **arguments)


def test_own_loss_by_dotted_path(own_module: str) -> None:
    path = f"{own_module}:Doubled"
    assert hyperparameters(path) == {"factor": 2.0}
    logits, targets = torch.randn(4, 3), torch.tensor([0, 1, 2, 0])
    value = make_loss(path, 3, factor=3.0)(logits, targets)
    torch.testing.assert_close(value, 3 * F.cross_entropy(logits, targets))
    with pytest.raises(ValueError, match=r"no hyperparameter 'facter'.*did you mean 'factor'"):
        make_loss(path, 3, facter=3.0)


def test_plain_module_by_dotted_path() -> None:
    logits, targets = torch.randn(4, 3), torch.tensor([0, 1, 2, 0])
    loss = make_loss("torch.nn:MultiMarginLoss", 3, margin=0.5)
    assert isinstance(loss, CalibrationLoss)
    expected = nn.MultiMarginLoss(margin=0.5)(logits, targets)
    torch.testing.assert_close(loss(logits, targets), expected)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("no_such_package:Loss", "cannot be imported: No module named 'no_such_package'"),
        ("torch.nn:NoSuchLoss", "cannot be imported: .*NoSuchLoss"),
        ("torch:softmax", "must be a CalibrationLoss or nn.Module class"),
        (":Loss", "cannot be imported"),
    ],
)
def test_bad_dotted_paths(path: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_loss(path, 3)


def test_installed_packages_may_add_losses(
    own_module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def entry_points(group: str) -> list[EntryPoint]:
        assert group == "calsweep.losses"
        return [
            EntryPoint("doubled", f"{own_module}:Doubled", group),
            EntryPoint("broken", "no_such_package:Loss", group),
        ]

    monkeypatch.setattr(components, "entry_points", entry_points)
    components.installed.cache_clear()
    try:
        assert "doubled" in available_losses()
        assert isinstance(make_loss("doubled", 3), Doubled)
        assert isinstance(make_loss("focal", 3), CalibrationLoss)  # the broken one is not imported
    finally:
        components.installed.cache_clear()


class Weighted(nn.Module):
    """A plain module that needs the number of classes."""

    def __init__(self, num_classes: int, share: float = 1.0) -> None:
        super().__init__()
        self.weight = nn.Buffer(torch.full((num_classes,), share))

    def forward(self, logits: Tensor, targets: Tensor) -> Tensor:
        return F.cross_entropy(logits, targets, weight=self.weight)


def test_a_plain_module_is_given_the_number_of_classes(own_module: str) -> None:
    name = f"{own_module}:Weighted"
    assert hyperparameters(name) == {"share": 1.0}
    loss = make_loss(name, 4, share=0.5)
    assert loss.module.weight.tolist() == [0.5] * 4
    assert loss(torch.randn(3, 4), torch.tensor([0, 1, 3])).isfinite()


class Typed(nn.Module):
    def __init__(self, a: int, b: float, c: "int" = 1, d: int | None = None, e: int | float = 1,
                 f: Annotated[int, "steps"] = 2, g=3, h: bool = False) -> None:  # type: ignore[no-untyped-def]  # fmt: skip
        super().__init__()
        if g == 4:
            raise KeyError("g")


def test_integer_hyperparameters_are_those_annotated_so(own_module: str) -> None:
    assert registry.integer_hyperparameters(f"{own_module}:Typed") == {"a", "c", "d", "f"}
    assert registry.integer_hyperparameters("cals_alm") == {"period"}


def test_a_constructor_that_fails_in_any_way_is_reported_with_the_loss(own_module: str) -> None:
    with pytest.raises(ValueError, match=r"loss 'somebodys_losses:Typed': KeyError: 'g'"):
        make_loss(f"{own_module}:Typed", 3, a=1, b=1.0, g=4)


class Returns(CalibrationLoss):
    def __init__(self, num_classes: int, what: Any = None) -> None:
        super().__init__(num_classes)
        self.what = what

    def compute(
        self, logits: Tensor, targets: Tensor, indices: Tensor | None, features: Tensor | None
    ) -> Tensor:
        value: Tensor = self.what(logits)
        return value


@pytest.mark.parametrize(
    ("what", "message"),
    [
        (lambda logits: logits.mean(1), r"must be a scalar, .* got a tensor of shape \(4,\)"),
        (lambda logits: logits.mean().reshape(1), r"got a tensor of shape \(1,\)"),
        (lambda logits: 3.5, "the loss must be a tensor, got float"),
        (lambda logits: logits.mean().detach(), "the loss has no gradient"),
    ],
)
def test_a_value_that_is_no_loss_is_rejected(what: Any, message: str) -> None:
    logits, targets = torch.randn(4, 3, requires_grad=True), torch.tensor([0, 1, 2, 0])
    with pytest.raises((TypeError, ValueError), match=message):
        Returns(3, what)(logits, targets)


def test_a_value_without_gradient_is_accepted_under_no_grad() -> None:
    logits, targets = torch.randn(4, 3, requires_grad=True), torch.tensor([0, 1, 2, 0])
    with torch.no_grad():
        assert not make_loss("focal", 3)(logits, targets).requires_grad
