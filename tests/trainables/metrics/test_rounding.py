"""Edges and ties do not depend on the dtype of the probabilities, nor on how they were computed."""

from fractions import Fraction

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score
from torch import Tensor

import calsweep
from trainables import metrics as M
from trainables.metrics._predictions import bin_top_label
from trainables.posthoc import TemperatureScaling


def votes(count: int = 2000, seed: int = 0) -> tuple[list[list[Fraction]], Tensor, Tensor]:
    """Exact shares of 15, 5 or 3 votes for three classes, their float64 values, and labels."""
    random = np.random.default_rng(seed)
    exact = []
    for _ in range(count):
        voters = int(random.choice([3, 5, 15]))
        found = random.multinomial(voters, random.dirichlet([2, 1, 1]))
        exact.append([Fraction(int(each), voters) for each in found])
    probs = torch.tensor([[float(p) for p in row] for row in exact], dtype=torch.float64)
    return exact, probs, torch.from_numpy(random.integers(0, 3, count))


EXACT, PROBS, LABELS = votes()


def exact_bins() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Bin by exact arithmetic, confidence and correctness."""
    top = [max(row) for row in EXACT]
    bins = [-(-(p * 15).numerator // (p * 15).denominator) - 1 for p in top]
    predicted = [row.index(max(row)) for row in EXACT]
    return np.array(bins), np.array(top, float), np.array(predicted) == LABELS.numpy()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_shares_of_votes_are_in_the_bins_of_exact_arithmetic(dtype: torch.dtype) -> None:
    bins, confidence, correct = exact_bins()
    sums = np.bincount(bins, confidence - correct, 15)
    count = np.bincount(bins, minlength=15)
    probs = PROBS.to(dtype)
    expected = np.abs(sums).sum() / len(bins)
    assert M.expected_calibration_error(probs, LABELS) == pytest.approx(expected, rel=1e-6)
    assert M.evaluate(probs.log(), LABELS, ["ece"])["ece"] == pytest.approx(expected, rel=1e-6)
    largest = np.abs(sums / np.maximum(count, 1)).max()
    assert M.maximum_calibration_error(probs, LABELS) == pytest.approx(largest, rel=1e-6)
    assert M.reliability_bins(probs, LABELS).count.tolist() == count.tolist()
    assert (bin_top_label("equal_width", probs, LABELS)[0] == bins).all()
    found = calsweep.judge(probs.numpy(), LABELS.numpy())
    assert found.metrics["ece"]["value"] == pytest.approx(expected, rel=1e-6)


def test_class_wise_bins_and_the_temperature_by_ece_agree_between_dtypes() -> None:
    double = M.classwise_calibration_error(PROBS, LABELS)
    assert M.classwise_calibration_error(PROBS.float(), LABELS) == pytest.approx(double, rel=1e-6)
    logits = (PROBS + 1e-3).log()
    by_dtype = [
        TemperatureScaling("ece").fit(z, LABELS).temperature for z in (logits, logits.float())
    ]
    assert by_dtype[0] == by_dtype[1]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_rounding_breaks_no_ties(dtype: torch.dtype) -> None:
    probs, truth = PROBS.to(dtype), LABELS.numpy()
    exact = np.array([[int(p * 15) for p in row] for row in EXACT])
    expected = np.mean([roc_auc_score(truth == k, exact[:, k]) for k in range(3)])
    of_failures = roc_auc_score(exact.argmax(axis=1) == truth, exact.max(axis=1))
    judged = calsweep.judge(probs.numpy(), truth).metrics
    for found in (
        {
            "auroc": M.multiclass_auroc(probs, LABELS),
            "failure_auroc": M.failure_auroc(probs, LABELS),
        },
        M.evaluate(probs.log(), LABELS, ["auroc", "failure_auroc"]),
        {name: judged[name]["value"] for name in ("auroc", "failure_auroc")},
    ):
        assert found["auroc"] == pytest.approx(expected, abs=1e-12)
        assert found["failure_auroc"] == pytest.approx(of_failures, abs=1e-12)


def test_sums_in_another_order_are_ties() -> None:
    forwards, backwards = 0.1 + 0.2 + 0.3, 0.3 + 0.2 + 0.1
    assert forwards != backwards
    probs = torch.tensor([[p, 1 - p] for p in (forwards, backwards) * 4], dtype=torch.float64)
    labels = torch.tensor([0, 1, 0, 1, 1, 0, 0, 1])
    assert M.failure_auroc(probs, labels) == 0.5
    assert M.aurc(probs, labels) == pytest.approx(0.5)
