"""The prediction sets of an exported classifier."""

import pytest
import torch
from torch import Tensor

from trainables.export.prediction_sets import Labelled, fit_prediction_sets
from trainables.posthoc import cross_fitted
from trainables.posthoc.conformal import PredictionSets, SetMethod


def drawn(count: int, draw: torch.Generator, classes: int = 6) -> tuple[Tensor, Tensor]:
    """Logits twice as confident as they should be, and labels."""
    logits = 2 * torch.randn(count, classes, generator=draw)
    return 2 * logits, logits.softmax(1).multinomial(1, generator=draw)[:, 0]


def fitted(samples: int, unseen: int, draw: torch.Generator) -> dict[str, dict[str, float]]:
    """LAC sets of an overconfident classifier after its temperature."""
    (logits, labels), (new, truth) = drawn(samples, draw), drawn(unseen, draw)
    known = Labelled(cross_fitted(logits, labels), labels)
    return fit_prediction_sets(known, Labelled(new / 2, truth))["lac"]


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


def test_their_interval_is_over_groups() -> None:
    draw = torch.Generator().manual_seed(0)
    known, (unseen, truth) = Labelled(*drawn(300, draw)), drawn(200, draw)

    def interval(tested: Labelled) -> tuple[float, float]:
        found = fit_prediction_sets(known, tested, (0.9,))["lac"]["0.9"]
        return found["low"], found["high"]

    one = interval(Labelled(unseen, truth))
    copies = [each.repeat_interleave(10, dim=0) for each in (unseen, truth, torch.arange(200))]
    assert interval(Labelled(*copies)) == pytest.approx(one, abs=2e-3)
    assert interval(Labelled(*copies[:2]))[0] > one[0] + 0.02
    few = fit_prediction_sets(known, Labelled(*copies[:2], copies[2] % 9), (0.9,))["lac"]["0.9"]
    assert not {"low", "high"} & set(few)


def test_of_many_classes_rows_are_spread_with_their_groups() -> None:
    logits, labels = torch.zeros(5, 2_000_000), torch.arange(5)
    spread = Labelled(logits, labels, torch.arange(5) + 7).spread()
    assert [len(each) for each in spread if each is not None] == [2, 2, 2]
    assert (spread.labels + 7).equal(spread.groups)


@pytest.mark.parametrize("method", ["lac", "aps", "raps"])
def test_a_kept_threshold_gives_the_same_sets(method: SetMethod) -> None:
    draw = torch.Generator().manual_seed(0)
    (logits, labels), (unseen, truth) = drawn(300, draw), drawn(200, draw)
    sets = PredictionSets(method, 0.9).fit(logits.double().softmax(1), labels)
    known = Labelled(logits, labels), Labelled(unseen, truth)
    kept = fit_prediction_sets(*known)[method]["0.9"]
    probs = unseen.double().softmax(1)
    again = PredictionSets(method, 0.9, threshold=kept["threshold"])(probs)
    assert torch.equal(again, sets(probs))
    assert kept["size"] == pytest.approx(float(again.sum(1).double().mean()))
    if method == "lac":
        most_likely = probs == probs.amax(1, keepdim=True)
        assert torch.equal((probs >= kept["least_probability"]) | most_likely, again)
