"""Bootstrap intervals."""

import math
from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from trainables import metrics as M


@pytest.mark.parametrize(
    "metric",
    [
        M.expected_calibration_error,
        partial(M.expected_calibration_error, num_bins=4),
        M.negative_log_likelihood,
        M.brier_score,
        M.root_brier_score,
        M.accuracy,
        M.error_rate,
        M.adaptive_calibration_error,
        M.maximum_calibration_error,
        partial(M.debiased_calibration_error, num_bins=5),
        M.sweep_calibration_error,
        M.smooth_calibration_error,
        M.failure_auroc,
        partial(M.aurc, confidence="margin"),
        M.e_aurc,
    ],
)
def test_batched_resamples_equal_single_ones(
    metric: Callable[[Tensor, Tensor], float], probs: Tensor, labels: Tensor
) -> None:
    at_once = M.bootstrap(metric, probs, labels, num_resamples=50, seed=3)
    one_by_one = M.bootstrap(lambda p, y: metric(p, y), probs, labels, num_resamples=50, seed=3)
    assert at_once == pytest.approx(one_by_one, rel=1e-9)


@pytest.mark.parametrize(
    "metric",
    [
        M.adaptive_calibration_error,
        M.maximum_calibration_error,
        M.debiased_calibration_error,
        M.sweep_calibration_error,
        M.smooth_calibration_error,
        M.failure_auroc,
        M.aurc,
        partial(M.e_aurc, confidence="negative_entropy"),
    ],
)
def test_top_label_metrics_resample_only_confidence_and_correctness(
    metric: Callable[[Tensor, Tensor], float], probs: Tensor, labels: Tensor
) -> None:
    wide = torch.cat([probs, torch.zeros(len(probs), 1000)], dim=1)
    sizes = []

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            result = function(*args, **(kwargs or {}))
            if function is torch.ops.aten.index.Tensor:
                sizes.append(result.numel())
            return result

    with Watch():
        M.bootstrap(metric, wide, labels, num_resamples=3)
    assert len(sizes) >= 6
    assert max(sizes) < wide.numel() / 100


def test_interval_of_accuracy_is_the_binomial_one(probs: Tensor, labels: Tensor) -> None:
    value, low, high = M.bootstrap(M.accuracy, probs, labels, num_resamples=4000)
    deviation = math.sqrt(value * (1 - value) / len(labels))
    assert value == M.accuracy(probs, labels)
    assert (low, high) == pytest.approx(
        (value - 1.96 * deviation, value + 1.96 * deviation), abs=0.1 * deviation
    )


@pytest.mark.parametrize(
    "metric",
    [M.expected_calibration_error, M.adaptive_calibration_error, M.aurc, M.multiclass_auroc],
)
def test_interval_contains_the_value_and_widens_with_its_level(
    metric: Callable[[Tensor, Tensor], float], probs: Tensor, labels: Tensor
) -> None:
    value, low, high = M.bootstrap(metric, probs, labels, 100, confidence=0.5)
    assert low <= value <= high
    _, lower, higher = M.bootstrap(metric, probs, labels, 100, confidence=0.99)
    assert lower < low < high < higher


def test_seed_determines_the_result(probs: Tensor, labels: Tensor) -> None:
    first = M.bootstrap(M.brier_score, probs, labels, num_resamples=100, seed=1)
    assert first == M.bootstrap(M.brier_score, probs, labels, num_resamples=100, seed=1)
    assert first != M.bootstrap(M.brier_score, probs, labels, num_resamples=100, seed=2)


def test_global_random_state_is_unchanged(probs: Tensor, labels: Tensor) -> None:
    before = torch.get_rng_state()
    M.bootstrap(M.accuracy, probs, labels, num_resamples=10)
    assert torch.equal(torch.get_rng_state(), before)


def test_undefined_resamples_are_left_out() -> None:
    # One failure in six: about a third of the resamples hold none.
    probs = torch.tensor([[0.9, 0.1]] * 5 + [[0.6, 0.4]])
    labels = torch.tensor([0, 0, 0, 0, 0, 1])
    assert M.bootstrap(M.failure_auroc, probs, labels, num_resamples=100) == (1, 1, 1)


def test_undefined_everywhere_is_nan() -> None:
    probs, labels = torch.tensor([[0.9, 0.1]] * 3), torch.tensor([0, 0, 0])
    result = M.bootstrap(M.failure_auroc, probs, labels, num_resamples=10)
    assert all(math.isnan(value) for value in result)
