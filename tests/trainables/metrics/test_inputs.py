"""Inputs that all metrics accept or reject."""

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from trainables import metrics as M

METRICS: list[Callable[[Tensor, Tensor], float]] = [
    M.accuracy,
    M.adaptive_calibration_error,
    M.aurc,
    M.brier_score,
    M.classwise_calibration_error,
    M.debiased_calibration_error,
    M.e_aurc,
    M.error_rate,
    M.expected_calibration_error,
    M.failure_auroc,
    M.kde_calibration_error,
    M.maximum_calibration_error,
    M.mean_iou,
    M.multiclass_auroc,
    M.negative_log_likelihood,
    M.nll_aurc,
    M.root_brier_score,
    M.smooth_calibration_error,
    M.sweep_calibration_error,
]
HALF = torch.full((4, 2), 0.5)
LABELS = torch.tensor([0, 1, 1, 0])


def test_every_metric_of_probabilities_is_in_the_table() -> None:
    others = {"EPOCH_METRICS", "METRICS", "METRIC_NAMES", "ON_REQUEST", "Metric", "ReliabilityBins"}
    others |= {
        "Direction",
        "bootstrap",
        "direction",
        "evaluate",
        "interval",
        "intervals",
        "ood_metrics",
        "reliability_bins",
    }
    others |= {"REFERENCED_METRICS", "calibrated_reference", "risk_coverage"}
    others |= {
        "COMPARABLE",
        "Design",
        "Difference",
        "detectable_difference",
        "difference",
        "mean_difference",
    }
    others |= {"chance_of_detection", "chance_of_support", "nll_calibration"}
    others |= {"CORRECTED", "corrected", "event_calibration_error"}
    assert {metric.__name__ for metric in METRICS} == set(M.__all__) - others


@pytest.mark.parametrize(
    ("probs", "labels", "error", "message"),
    [
        (HALF.numpy(), LABELS, TypeError, "probs must be a tensor of floats, got ndarray"),
        (HALF.long(), LABELS, TypeError, "probs must be a tensor of floats, got torch.int64"),
        (HALF, LABELS.float(), TypeError, "labels must be a tensor of integers, got torch.float32"),
        (HALF, LABELS.bool(), TypeError, "labels must be a tensor of integers, got torch.bool"),
        (HALF[:, 0], LABELS, ValueError, r"shape \(N, K\) with K of at least 2, got \(4,\)"),
        (HALF[:, :1], LABELS, ValueError, r"shape \(N, K\) with K of at least 2, got \(4, 1\)"),
        (HALF[:0], LABELS[:0], ValueError, r"at least one sample, got shape \(0, 2\)"),
        (HALF, LABELS[:3], ValueError, r"labels must have shape \(4,\) to match probs, got \(3,\)"),
        (HALF, LABELS[:, None], ValueError, r"labels must have shape \(4,\)"),
        (HALF, LABELS + 1, ValueError, r"labels must lie in \[0, 2\), got values from 1 to 2"),
        (HALF, LABELS - 1, ValueError, r"labels must lie in \[0, 2\), got values from -1 to 0"),
        (HALF * math.nan, LABELS, ValueError, r"probs must lie in \[0, 1\], got values from nan"),
        (HALF * 3, LABELS, ValueError, r"probs must lie in \[0, 1\], got values from 1.5 to 1.5"),
        (-HALF, LABELS, ValueError, r"probs must lie in \[0, 1\], got values from -0.5 to -0.5"),
        (HALF * 0.9, LABELS, ValueError, "each row of probs must sum to 1 .* are these logits"),
    ],
)
def test_wrong_arguments(
    probs: Tensor, labels: Tensor, error: type[Exception], message: str
) -> None:
    for metric in METRICS:
        with pytest.raises(error, match=message):
            metric(probs, labels)
            pytest.fail(f"{metric.__name__} takes it")


@pytest.mark.parametrize(
    ("logits", "message"),
    [
        (torch.tensor([[0.0, math.nan]]), "logits must be finite"),
        (torch.tensor([[0.0, math.inf]]), "logits must be finite"),
        (torch.tensor([[-math.inf, -math.inf]]), "logits must be finite"),
        (torch.zeros(1, 1), r"logits must have shape \(N, K\)"),
    ],
)
def test_wrong_logits(logits: Tensor, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        M.evaluate(logits, torch.tensor([0]))


def test_masked_classes_count_as_probability_zero(logits: Tensor, labels: Tensor) -> None:
    ruled_out = torch.cat([logits, torch.full((len(logits), 2), -math.inf)], dim=1)
    values, expected = M.evaluate(ruled_out, labels), M.evaluate(logits, labels)
    for name in ("classwise_ece", "classwise_adaptive_ece"):
        expected[name] *= 6 / 8  # two more classes, without errors
    assert math.isfinite(values.pop("kde_ece"))
    assert values == pytest.approx({name: expected[name] for name in values})
    impossible = M.evaluate(ruled_out[:1], torch.tensor([7]))
    assert impossible["nll"] == math.inf
    assert impossible["brier"] > 1


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_probabilities_are_refused_as_logits(
    probs: Tensor, logits: Tensor, labels: Tensor, dtype: torch.dtype
) -> None:
    probs = probs.to(dtype)
    with pytest.raises(ValueError, match=r"look like probabilities.*probabilities_as_logits=True"):
        M.evaluate(probs, labels, ["ece"])
    meant = M.evaluate(probs, labels, ["ece"], probabilities_as_logits=True)["ece"]
    twice = probs.float().softmax(1) if dtype == torch.bfloat16 else probs.softmax(1)
    assert meant == pytest.approx(M.expected_calibration_error(twice, labels))
    for fine in (logits, probs.log(), logits.sigmoid()):
        M.evaluate(fine, labels, ["ece"])


@pytest.mark.parametrize("metric", METRICS)
def test_probabilities_may_have_rounding_errors(metric: Callable[[Tensor, Tensor], float]) -> None:
    probs = torch.tensor([[1 + 1e-7, -1e-7], [0.6, 0.4], [0.7, 0.3]])
    exact = probs.clamp(0, 1)
    assert probs.max() > 1
    labels = torch.tensor([0, 1, 0])
    assert metric(probs, labels) == pytest.approx(metric(exact, labels))


@pytest.mark.parametrize("num_bins", [np.int64(15), np.int32(15)])
def test_number_of_bins_may_be_of_numpy(num_bins: int, probs: Tensor, labels: Tensor) -> None:
    for metric in (M.expected_calibration_error, M.adaptive_calibration_error):
        assert metric(probs, labels, num_bins) == metric(probs, labels, 15)
    assert len(M.reliability_bins(probs, labels, num_bins).count) == 15


@pytest.mark.parametrize(
    "metric",
    [
        M.adaptive_calibration_error,
        M.classwise_calibration_error,
        M.debiased_calibration_error,
        M.expected_calibration_error,
        M.maximum_calibration_error,
        M.reliability_bins,
    ],
)
def test_wrong_number_of_bins(metric: Callable[..., object]) -> None:
    for num_bins in (0, -1, 2.5, math.nan, True):
        with pytest.raises(ValueError, match=f"num_bins must be an integer .* got {num_bins}"):
            metric(HALF, LABELS, num_bins=num_bins)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: M.classwise_calibration_error(HALF, LABELS, binning="mass"),  # type: ignore[arg-type]
            "binning must be one of equal_width, equal_mass, got 'mass'",
        ),
        (
            lambda: M.aurc(HALF, LABELS, confidence="entropy"),  # type: ignore[arg-type]
            "confidence must be one of max_probability, margin, negative_entropy, got 'entropy'",
        ),
        (
            lambda: M.kde_calibration_error(HALF, LABELS, kind="marginal"),  # type: ignore[arg-type]
            "kind must be one of canonical, top_label, got 'marginal'",
        ),
        (lambda: M.kde_calibration_error(HALF, LABELS, bandwidth=0), "bandwidth must be above 0"),
        (lambda: M.kde_calibration_error(HALF, LABELS, math.nan), "bandwidth .* got nan"),
        (
            lambda: M.evaluate(8 * HALF, LABELS, ["ecce"]),
            r"metric must be one of ece, .*, got 'ecce' \(did you mean 'ece'\?\)",
        ),
        (
            lambda: M.evaluate(8 * HALF, LABELS, ["zzz"]),
            "metric must be one of ece, .* got 'zzz'",
        ),
        (lambda: M.bootstrap(M.accuracy, HALF, LABELS, num_resamples=0), "num_resamples .* got 0"),
        (
            lambda: M.bootstrap(M.accuracy, HALF, LABELS, num_resamples=True),
            "must be .* got True",
        ),
        (lambda: M.bootstrap(M.accuracy, HALF, LABELS, confidence=95), "confidence .* got 95"),
        (lambda: M.ood_metrics(HALF, HALF[0]), r"in_scores must have shape \(N,\)"),
        (lambda: M.ood_metrics(HALF[0], HALF[0] * math.nan), "out_scores must be finite"),
    ],
)
def test_wrong_options(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def test_ood_scores_are_floats() -> None:
    with pytest.raises(TypeError, match=r"out_scores must be a tensor of floats, got torch.int64"):
        M.ood_metrics(HALF[0], LABELS)


@pytest.mark.parametrize("metric", METRICS)
def test_half_precision_is_computed_in_float32(
    metric: Callable[[Tensor, Tensor], float], rough_probs: Tensor, labels: Tensor
) -> None:
    expected = pytest.approx(metric(rough_probs, labels), rel=1e-6, abs=1e-6)
    for dtype in (torch.float16, torch.bfloat16, torch.float32):
        assert metric(rough_probs.to(dtype), labels.to(torch.int32)) == expected, dtype


@pytest.mark.parametrize("metric", METRICS)
def test_gradients_are_detached_and_inputs_unchanged(
    metric: Callable[[Tensor, Tensor], float], probs: Tensor, labels: Tensor
) -> None:
    before = probs.clone()
    value = metric(probs.requires_grad_(), labels)
    assert isinstance(value, float)
    assert torch.equal(probs, before)
