"""Properties of metrics for all predictions, and for extreme ones."""

import math
from collections.abc import Callable
from itertools import product
from random import Random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from trainables import metrics as M

CALIBRATION_ERRORS: list[Callable[[Tensor, Tensor], float]] = [
    M.adaptive_calibration_error,
    M.classwise_calibration_error,
    M.debiased_calibration_error,
    M.expected_calibration_error,
    M.maximum_calibration_error,
    M.smooth_calibration_error,
    M.sweep_calibration_error,
]


@st.composite
def predictions(draw: st.DrawFn) -> tuple[Tensor, Tensor]:
    """Logits and labels of 1 to 60 samples and 2 to 6 classes, some with many ties."""
    num_samples, num_classes = draw(st.integers(1, 60)), draw(st.integers(2, 6))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**32)))
    scale = draw(st.sampled_from([0.0, 0.5, 3.0, 30.0]))
    logits = scale * torch.randn(num_samples, num_classes, generator=generator, dtype=torch.float64)
    if draw(st.booleans()):
        logits = logits.round()
    return logits, torch.randint(num_classes, (num_samples,), generator=generator)


@settings(max_examples=60, deadline=None)
@given(predictions())
def test_values_lie_in_their_ranges(example: tuple[Tensor, Tensor]) -> None:
    logits, labels = example
    values = M.evaluate(logits, labels)
    two = {"event_ece"} if logits.shape[1] == 2 else set()
    assert {*values} == {*M.METRIC_NAMES} | two
    largest = dict.fromkeys(values, 1.0)
    largest |= {"nll": math.inf, "brier": 2.0, "root_brier": math.sqrt(2)}
    for name, value in values.items():
        if name in ("auroc", "failure_auroc", "kde_ece") and math.isnan(value):
            continue
        assert -1e-9 <= value <= largest[name] + 1e-9, name
    assert math.isnan(values["kde_ece"]) == (len(labels) == 1)
    assert math.isnan(values["failure_auroc"]) == (values["error"] in (0, 1))
    assert math.isnan(values["auroc"]) == (len(set(labels.tolist())) == 1)
    assert values["ece"] <= values["mce"] + 1e-12
    assert math.isfinite(values["nll"])


@settings(max_examples=40, deadline=None)
@given(predictions(), st.randoms(use_true_random=False))
def test_the_order_of_samples_does_not_matter(
    example: tuple[Tensor, Tensor], random: Random
) -> None:
    logits, labels = example
    order = list(range(len(labels)))
    random.shuffle(order)
    shuffled = M.evaluate(logits[order], labels[order])
    assert shuffled == pytest.approx(M.evaluate(logits, labels), abs=1e-9, nan_ok=True)


@settings(max_examples=40, deadline=None)
@given(predictions())
def test_evaluate_gives_what_the_functions_give(example: tuple[Tensor, Tensor]) -> None:
    logits, labels = example
    probs = torch.softmax(logits, dim=1)
    expected = {
        "ece": M.expected_calibration_error(probs, labels),
        "adaptive_ece": M.adaptive_calibration_error(probs, labels),
        "classwise_ece": M.classwise_calibration_error(probs, labels),
        "classwise_adaptive_ece": M.classwise_calibration_error(
            probs, labels, binning="equal_mass"
        ),
        "mce": M.maximum_calibration_error(probs, labels),
        "smooth_ece": M.smooth_calibration_error(probs, labels),
        "kde_ece": M.kde_calibration_error(probs, labels, kind="top_label"),
        "debiased_ece": M.debiased_calibration_error(probs, labels),
        "nll": M.negative_log_likelihood(probs, labels),
        "brier": M.brier_score(probs, labels),
        "root_brier": M.root_brier_score(probs, labels),
        "accuracy": M.accuracy(probs, labels),
        "error": 1 - M.accuracy(probs, labels),
        "auroc": M.multiclass_auroc(probs, labels),
        "failure_auroc": M.failure_auroc(probs, labels),
        "aurc": M.aurc(probs, labels),
        "e_aurc": M.e_aurc(probs, labels),
    }
    if probs.shape[1] == 2:
        expected["event_ece"] = M.event_calibration_error(probs, labels)
    assert M.evaluate(logits, labels) == pytest.approx(expected, nan_ok=True)
    some = M.evaluate(logits, labels, ["nll", "ece"])
    assert some == pytest.approx({"nll": expected["nll"], "ece": expected["ece"]})


@pytest.mark.parametrize("metric", CALIBRATION_ERRORS)
def test_certain_and_correct_is_calibrated(metric: Callable[[Tensor, Tensor], float]) -> None:
    for num_samples, num_classes in product((1, 7, 100), (2, 10)):
        labels = torch.arange(num_samples) % num_classes
        probs = torch.nn.functional.one_hot(labels, num_classes).float()
        assert metric(probs, labels) == pytest.approx(0, abs=1e-12), (num_samples, num_classes)


@pytest.mark.parametrize("metric", CALIBRATION_ERRORS)
def test_certain_and_wrong_is_miscalibrated(metric: Callable[[Tensor, Tensor], float]) -> None:
    labels = torch.arange(100) % 2
    probs = torch.nn.functional.one_hot(1 - labels, 2).float()
    # smECE adds a small constant to the density.
    assert metric(probs, labels) == pytest.approx(1, abs=1e-3)


@pytest.mark.parametrize(
    "metric", [m for m in CALIBRATION_ERRORS if m is not M.classwise_calibration_error]
)
def test_constant_confidence_at_the_base_rate_is_calibrated(
    metric: Callable[[Tensor, Tensor], float],
) -> None:
    labels = (torch.arange(200) % 10 >= 7).long()  # 70 % are of the first class
    probs = torch.tensor([[0.7, 0.3]], dtype=torch.float64).repeat(200, 1)
    assert metric(probs, labels) == pytest.approx(0, abs=1e-9)
    assert M.classwise_calibration_error(probs, labels) == pytest.approx(0, abs=1e-9)


def test_perfect_predictions() -> None:
    labels = torch.arange(30) % 3
    values = M.evaluate(1000 * torch.nn.functional.one_hot(labels, 3).double(), labels)
    undefined = {"failure_auroc": math.nan}
    ones = {"accuracy": 1, "auroc": 1}
    zeros = dict.fromkeys(set(values) - set(undefined) - set(ones), 0)
    assert values == pytest.approx({**zeros, **ones, **undefined}, abs=1e-12, nan_ok=True)


def test_certain_and_wrong_logits_keep_the_loss_finite() -> None:
    logits = torch.tensor([[1e4, 0.0], [1e4, 0.0], [0.0, 1e4], [0.0, 1e4]])
    labels = torch.tensor([1, 1, 0, 0])
    values = M.evaluate(logits, labels)
    assert values["nll"] == pytest.approx(1e4)
    assert values["brier"] == 2
    assert values["kde_ece"] == pytest.approx(1)
    certain = torch.tensor([[1.0, 0.0]])
    value = M.negative_log_likelihood(certain, torch.tensor([1]))
    assert value == pytest.approx(-math.log(torch.finfo(torch.float32).tiny))


def test_uniform_predictions() -> None:
    values = M.evaluate(torch.zeros(100, 4, dtype=torch.float64), torch.arange(100) % 4)
    expected = {"nll": math.log(4), "brier": 0.75, "accuracy": 0.25, "auroc": 0.5}
    expected |= {"failure_auroc": 0.5, "ece": 0, "adaptive_ece": 0, "classwise_ece": 0}
    assert {name: values[name] for name in expected} == pytest.approx(expected, abs=1e-12)


def test_labels_of_one_class_have_no_auroc() -> None:
    probs = torch.softmax(torch.randn(20, 3, generator=torch.Generator().manual_seed(0)), dim=1)
    assert math.isnan(M.multiclass_auroc(probs, torch.zeros(20, dtype=torch.int64)))


def test_float32_is_close_to_float64() -> None:
    generator = torch.Generator().manual_seed(0)
    logits = 3 * torch.randn(3000, 20, generator=generator)
    labels = torch.multinomial(torch.softmax(logits, dim=1), 1, generator=generator)[:, 0]
    single, double = M.evaluate(logits, labels), M.evaluate(logits.double(), labels)
    assert single == pytest.approx(double, rel=1e-3, abs=1e-5)
