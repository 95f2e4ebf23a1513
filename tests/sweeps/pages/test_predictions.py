"""The NumPy functions of the figures agree with the metrics."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from sweeps.pages import predictions
from trainables import metrics as M


@given(st.integers(0, 2**32 - 1), st.integers(1, 200), st.integers(2, 6), st.booleans())
def test_bins_and_risks_are_those_of_the_metrics(
    seed: int, samples: int, classes: int, ties: bool
) -> None:
    draw = torch.Generator().manual_seed(seed)
    logits = 4 * torch.randn(samples, classes, generator=draw, dtype=torch.float64)
    logits = logits.round() if ties else logits
    labels = torch.randint(classes, (samples,), generator=draw)
    probs = logits.softmax(dim=1)
    own = predictions.probabilities(logits)
    assert np.allclose(own, probs, rtol=1e-12, atol=0)
    expected, bins = M.reliability_bins(probs, labels), predictions.reliability_bins(own, labels)
    filled = expected.count > 0
    for name in ("count", "confidence", "accuracy"):
        found = [getattr(each, name) for each in bins]
        assert np.allclose(found, getattr(expected, name)[filled])
    error = M.expected_calibration_error(probs, labels)
    assert predictions.expected_calibration_error(bins) == pytest.approx(error, abs=1e-12)
    over, under = predictions.parts_of_error(bins)
    gap = float(probs.amax(1).mean()) - M.accuracy(probs, labels)
    assert over + under == pytest.approx(error, abs=1e-12)
    assert over - under == pytest.approx(gap, abs=1e-12)
    for each in bins:
        exact = binomtest(round(each.accuracy * each.count), each.count).proportion_ci()
        assert (each.low, each.high) == pytest.approx((exact.low, exact.high))
    # Confidences that differ only by rounding would be in a different order.
    risks = predictions.risk_coverage(probs, labels)
    assert np.allclose(risks, M.risk_coverage(probs, labels), atol=1e-12)


def test_confidences_of_0_and_1_are_in_the_bins_at_the_ends() -> None:
    bins = predictions.reliability_bins([[1.0, 0.0], [0.5, 0.5]], [0, 1])
    assert [(each.upper, each.count) for each in bins] == [(pytest.approx(8 / 15), 1), (1.0, 1)]
    assert predictions.expected_calibration_error(bins) == pytest.approx(0.25)
