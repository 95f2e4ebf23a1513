"""Calibration errors of a perfectly calibrated model."""

import numpy as np
import pytest
import torch
from torch import Tensor

from trainables import metrics as M

ANY_CLASSES = [name for name in M.REFERENCED_METRICS if name in M.METRIC_NAMES]


def make_probs(num_samples: int, num_classes: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(num_samples, num_classes, generator=generator, dtype=torch.float64)
    return torch.softmax(logits, dim=1)


@pytest.mark.parametrize("num_classes", [2, 6])
@pytest.mark.parametrize("name", ANY_CLASSES)
def test_reference_matches_labels_drawn_from_the_probabilities(name: str, num_classes: int) -> None:
    probs = make_probs(400, num_classes)
    generator = torch.Generator().manual_seed(1)
    drawn = [
        M.METRICS[name].function(probs, torch.multinomial(probs, 1, generator=generator)[:, 0])
        for _ in range(200 if name != "kde_ece" else 60)
    ]
    mean, low, high = M.calibrated_reference(name, probs)
    deviation = np.std(drawn)
    assert mean == pytest.approx(np.mean(drawn), abs=0.35 * deviation)
    outside = [value for value in drawn if not low - 1e-12 <= value <= high + 1e-12]
    assert len(outside) <= 0.12 * len(drawn)
    assert high - low < 6 * deviation


@pytest.mark.parametrize("name", ANY_CLASSES)
def test_more_samples_and_smaller_shares_give_narrower_references(name: str) -> None:
    few, many = make_probs(200, 4), make_probs(4000, 4)
    mean, low, high = M.calibrated_reference(name, few)
    assert low < mean < high
    assert M.calibrated_reference(name, many)[0] < 0.6 * mean
    _, lower, higher = M.calibrated_reference(name, few, confidence=0.5)
    assert low <= lower < higher < high


@pytest.mark.parametrize("name", ANY_CLASSES)
def test_seed_decides_and_the_random_state_is_left_alone(name: str) -> None:
    probs = make_probs(300, 4)
    before = torch.get_rng_state()
    first = M.calibrated_reference(name, probs)
    assert torch.equal(torch.get_rng_state(), before)
    assert M.calibrated_reference(name, probs) == first
    if not name.startswith("classwise"):  # closed form
        assert M.calibrated_reference(name, probs, seed=1) != first


def test_reference_of_a_calibrated_ten_class_model() -> None:
    # A calibrated ten-class model with 2,000 samples shows an ECE of about 0.023.
    generator = torch.Generator().manual_seed(0)
    probs = torch.softmax(2 * torch.randn(2000, 10, generator=generator), dim=1)
    assert M.calibrated_reference("ece", probs)[0] == pytest.approx(0.023, abs=0.008)


@pytest.mark.parametrize("name", ANY_CLASSES)
def test_certain_calibrated_predictions_have_no_error(name: str) -> None:
    probs = torch.nn.functional.one_hot(torch.arange(90) % 3, 3).double()
    assert M.calibrated_reference(name, probs) == pytest.approx((0, 0, 0), abs=1e-6)


def test_wrong_arguments() -> None:
    probs = make_probs(5, 3)
    with pytest.raises(ValueError, match=r"with a reference must be one of ece, .* got 'nll'"):
        M.calibrated_reference("nll", probs)
    with pytest.raises(ValueError, match=r"did you mean 'smooth_ece'"):
        M.calibrated_reference("smoth_ece", probs)
    with pytest.raises(ValueError, match=r"confidence must be in \(0, 1\), got 1"):
        M.calibrated_reference("ece", probs, confidence=1)
    with pytest.raises(ValueError, match="each row of probs must sum to 1"):
        M.calibrated_reference("ece", probs * 0.5)
    with pytest.raises(ValueError, match="event_ece is defined for two classes, not 3"):
        M.calibrated_reference("event_ece", probs)
