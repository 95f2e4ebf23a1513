"""Bootstrap intervals."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from trainables import metrics as M


def test_the_metric_gets_the_rows_of_each_resample(probs: Tensor, labels: Tensor) -> None:
    seen = []

    def metric(some: Tensor, truth: Tensor) -> float:
        seen.append((some.shape, truth.shape))
        return M.brier_score(some, truth)

    assert M.bootstrap(metric, probs, labels, 5, seed=3) == M.bootstrap(
        M.brier_score, probs, labels, 5, seed=3
    )
    assert seen == [(probs.shape, labels.shape)] * 6


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
