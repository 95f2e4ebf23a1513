"""The prediction sets of an exported classifier."""

import pytest
import torch
from torch import Tensor

from trainables.export.prediction_sets import fit_prediction_sets
from trainables.posthoc import cross_fitted
from trainables.posthoc.conformal import PredictionSets, SetMethod


def drawn(count: int, draw: torch.Generator, classes: int = 6) -> tuple[Tensor, Tensor]:
    """Logits twice as confident as they should be, and labels."""
    logits = 2 * torch.randn(count, classes, generator=draw)
    return 2 * logits, logits.softmax(1).multinomial(1, generator=draw)[:, 0]


def fitted(samples: int, unseen: int, draw: torch.Generator) -> dict[str, dict[str, float]]:
    """LAC sets of an overconfident classifier after its temperature."""
    (logits, labels), (new, truth) = drawn(samples, draw), drawn(unseen, draw)
    return fit_prediction_sets((cross_fitted(logits, labels), labels), (new / 2, truth))["lac"]


def test_prediction_sets_reach_the_requested_coverage() -> None:
    draw = torch.Generator().manual_seed(0)
    held = []
    for _ in range(40):
        found = fitted(400, 2000, draw)
        held.append([each["coverage"] for each in found.values()])
        assert all(each["low"] <= each["coverage"] <= each["high"] for each in found.values())
    assert list(found) == ["0.8", "0.9", "0.95", "0.99"]
    assert torch.tensor(held).mean(0).tolist() == pytest.approx([0.8, 0.9, 0.95, 0.99], abs=0.012)


def test_coverages_that_need_more_samples_are_left_out() -> None:
    assert list(fitted(60, 100, torch.Generator().manual_seed(0))) == ["0.8", "0.9", "0.95"]


@pytest.mark.parametrize("method", ["lac", "aps", "raps"])
def test_a_kept_threshold_gives_the_same_sets(method: SetMethod) -> None:
    draw = torch.Generator().manual_seed(0)
    (logits, labels), (unseen, truth) = drawn(300, draw), drawn(200, draw)
    sets = PredictionSets(method, 0.9).fit(logits.double().softmax(1), labels)
    kept = fit_prediction_sets((logits, labels), (unseen, truth))[method]["0.9"]
    probs = unseen.double().softmax(1)
    again = PredictionSets(method, 0.9, threshold=kept["threshold"])(probs)
    assert torch.equal(again, sets(probs))
    assert kept["size"] == pytest.approx(float(again.sum(1).double().mean()))
    if method == "lac":
        most_likely = probs == probs.amax(1, keepdim=True)
        assert torch.equal((probs >= kept["least_probability"]) | most_likely, again)
