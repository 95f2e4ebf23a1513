"""The prediction sets of an exported classifier."""

import pytest
import torch
from torch import Tensor

from trainables.export.prediction_sets import fit_prediction_sets, prediction_sets
from trainables.posthoc.conformal import PredictionSets


def drawn(count: int, draw: torch.Generator, classes: int = 6) -> tuple[Tensor, Tensor]:
    """Logits twice as confident as they should be, and labels."""
    logits = 2 * torch.randn(count, classes, generator=draw)
    return 2 * logits, logits.softmax(1).multinomial(1, generator=draw)[:, 0]


def test_they_hold_the_true_class_as_often_as_asked() -> None:
    draw = torch.Generator().manual_seed(0)
    held = []
    for _ in range(40):
        found = fit_prediction_sets(drawn(400, draw), drawn(2000, draw), temperature=2.0)
        held.append([each["coverage"] for each in found.values()])
        assert all(each["low"] <= each["coverage"] <= each["high"] for each in found.values())
    assert list(found) == ["0.8", "0.9", "0.95", "0.99"]
    assert torch.tensor(held).mean(0).tolist() == pytest.approx([0.8, 0.9, 0.95, 0.99], abs=0.012)


def test_coverages_that_need_more_samples_are_left_out() -> None:
    draw = torch.Generator().manual_seed(0)
    few = fit_prediction_sets(drawn(60, draw), drawn(100, draw), temperature=2.0)
    assert list(few) == ["0.8", "0.9", "0.95"]


def test_the_sets_are_those_of_the_conformal_method() -> None:
    logits, labels = drawn(300, torch.Generator().manual_seed(0))
    probs = logits.softmax(1).double()
    sets = PredictionSets("lac", 0.9).fit(probs, labels)
    assert torch.equal(prediction_sets(probs, 1 - sets.threshold), sets(probs))
    assert prediction_sets(probs, 1.1).sum(1).tolist() == [1] * 300  # the most likely class
