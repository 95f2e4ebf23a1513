"""Values of the authors' code."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.golden import inputs, recorded
from trainables import metrics as M
from trainables.posthoc import TemperatureScaling


@pytest.fixture(scope="module")
def golden() -> dict[str, list[dict[str, Any]]]:
    return recorded()["metrics"]


@pytest.fixture(scope="module")
def logits() -> Tensor:
    return inputs()[0]


@pytest.fixture(scope="module")
def labels() -> Tensor:
    return inputs()[1]


def kde(probs: Tensor, labels: Tensor) -> float:
    return M.kde_calibration_error(probs, labels, bandwidth=0.02)


def failure_auroc_by_entropy(probs: Tensor, labels: Tensor) -> float:
    return M.failure_auroc(probs, labels, confidence="negative_entropy")


def root_mean_square_gap(probs: Tensor, labels: Tensor) -> float:
    bins = M.reliability_bins(probs, labels)
    squares = bins.count * (bins.confidence - bins.accuracy).nan_to_num() ** 2
    return float((squares.sum() / len(labels)).sqrt())


def mean_gap_of_non_empty_bins(probs: Tensor, labels: Tensor) -> float:
    bins = M.reliability_bins(probs, labels)
    return float((bins.confidence - bins.accuracy).abs().nanmean())


def ood(key: str) -> Callable[[Tensor, Tensor], float]:
    def of_failures(probs: Tensor, labels: Tensor) -> float:
        confidence, predicted = probs.max(dim=1)
        right = predicted == labels
        return M.ood_metrics(confidence[right], confidence[~right])[key]

    return of_failures


@pytest.mark.parametrize(
    ("metric", "entry", "key"),
    [
        (M.expected_calibration_error, "ece", "value"),
        (M.expected_calibration_error, "ece_dict", "value"),
        (M.expected_calibration_error, "ece_cl", "value"),
        (M.expected_calibration_error, "torchmetrics_ce", "value"),
        (M.expected_calibration_error, "netcal_ece", "value"),
        (M.adaptive_calibration_error, "tu_adaptive_ece_equalmass", "value"),
        (M.classwise_calibration_error, "classwise_ece", "value"),
        (M.classwise_calibration_error, "sce", "value"),
        (M.classwise_calibration_error, "tu_classwise_ece", "value"),
        (M.maximum_calibration_error, "mce", "value"),
        (M.maximum_calibration_error, "mce_cl", "value"),
        (M.maximum_calibration_error, "netcal_mce", "value"),
        (root_mean_square_gap, "l2_ece_dict", "value"),
        (mean_gap_of_non_empty_bins, "ace_bin_average", "value"),
        (mean_gap_of_non_empty_bins, "netcal_ace", "value"),
        (M.smooth_calibration_error, "smece", "value"),
        (kde, "ece_kde", "value"),
        (M.brier_score, "brier", "value"),
        (M.brier_score, "nll_brier", "brier"),
        (M.negative_log_likelihood, "nll_brier", "nll_float64_torch"),
        (M.accuracy, "aurc_eaurc", "acc"),
        (M.aurc, "aurc_eaurc", "aurc"),
        (M.aurc, "asymptotic_aurc_estimators", "em_AURC"),
        (M.e_aurc, "aurc_eaurc", "eaurc"),
        (M.failure_auroc, "failure_auroc", "auroc_msp"),
        (failure_auroc_by_entropy, "failure_auroc", "auroc_negentropy"),
        (ood("auroc"), "failure_auroc", "auroc_msp"),
        (ood("aupr_in"), "failure_auroc", "aupr_success"),
        (ood("aupr_out"), "aurc_eaurc", "aupr_error"),
        (ood("fpr_at_95_tpr"), "aurc_eaurc", "fpr_at_95tpr"),
    ],
)
def test_recorded_value(
    metric: Callable[[Tensor, Tensor], float],
    entry: str,
    key: str,
    golden: dict[str, list[dict[str, Any]]],
    logits: Tensor,
    labels: Tensor,
) -> None:
    value = metric(torch.softmax(logits, dim=1), labels)
    assert value == pytest.approx(golden[entry][0][key], rel=1e-9)


@pytest.mark.parametrize(
    ("name", "entry", "key"),
    [
        ("ece", "ece", "value"),
        ("adaptive_ece", "tu_adaptive_ece_equalmass", "value"),
        ("classwise_ece", "classwise_ece", "value"),
        ("mce", "mce", "value"),
        ("smooth_ece", "smece", "value"),
        ("nll", "nll_brier", "nll_float64_torch"),
        ("brier", "brier", "value"),
        ("aurc", "aurc_eaurc", "aurc"),
        ("e_aurc", "aurc_eaurc", "eaurc"),
        ("failure_auroc", "failure_auroc", "auroc_msp"),
    ],
)
def test_evaluate_gives_recorded_value(
    name: str,
    entry: str,
    key: str,
    golden: dict[str, list[dict[str, Any]]],
    logits: Tensor,
    labels: Tensor,
) -> None:
    assert M.evaluate(logits, labels)[name] == pytest.approx(golden[entry][0][key], rel=1e-9)


def test_temperature_at_the_bound_of_the_recorded_range(
    golden: dict[str, list[dict[str, Any]]], logits: Tensor, labels: Tensor
) -> None:
    optimum = golden["temperature_nll_optimum"][0]
    scaler = TemperatureScaling("nll_unpenalised").fit(logits, labels)
    assert scaler.temperature == pytest.approx(optimum["temperature"], rel=1e-6)
    nll = M.evaluate(scaler(logits), labels, ["nll"])["nll"]
    assert nll == pytest.approx(optimum["nll_after"], rel=1e-9)
    assert scaler.at_bound


def test_ece_at_the_recorded_temperature(
    golden: dict[str, list[dict[str, Any]]], logits: Tensor, labels: Tensor
) -> None:
    scaled = golden["temperature_scaling"][0]
    scores = M.evaluate(logits / scaled["temperature"], labels, ["ece", "nll"])
    assert scores["ece"] == pytest.approx(scaled["ece_after"], rel=1e-9)
    assert scores["nll"] == pytest.approx(scaled["nll_after"], rel=1e-9)
