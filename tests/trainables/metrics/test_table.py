"""The table of metrics: names, directions, descriptions."""

import re
from dataclasses import FrozenInstanceError

import pytest
import torch
from torch import Tensor

from trainables import metrics as M


def test_names_are_the_keys_and_each_is_described() -> None:
    assert tuple(M.METRICS) == tuple(m.name for m in M.METRICS.values())
    assert {*M.METRICS} - {*M.METRIC_NAMES} == {"event_ece", *M.ON_REQUEST}
    for metric in M.METRICS.values():
        assert re.fullmatch(r"[^\n]+; (in \[0, [\d.]+\]|at least 0)", metric.description)
    with pytest.raises(FrozenInstanceError):
        M.METRICS["ece"].higher_is_better = True  # type: ignore[misc]


@pytest.mark.parametrize("name", [*M.METRIC_NAMES, *M.ON_REQUEST])
def test_direction_is_that_of_better_predictions(name: str) -> None:
    labels = torch.arange(200) % 4
    certain = 8 * torch.nn.functional.one_hot(labels, 4).double()
    # A few errors of low confidence keep every metric defined.
    certain[:10] = torch.tensor([0.4, 0.3, 0.2, 0.1]).double().roll(1)
    wrong = certain.roll(1, dims=0).roll(2, dims=1)
    good, bad = (M.evaluate(z, labels, [name])[name] for z in (certain, wrong))
    assert (good > bad) == M.METRICS[name].higher_is_better


@pytest.mark.parametrize("name", [*M.METRIC_NAMES, *M.ON_REQUEST])
def test_function_gives_what_evaluate_gives(name: str, logits: Tensor, labels: Tensor) -> None:
    value = M.METRICS[name].function(torch.softmax(logits, dim=1), labels)
    assert value == pytest.approx(M.evaluate(logits, labels, [name])[name])


def test_a_new_metric_is_one_line(
    monkeypatch: pytest.MonkeyPatch, logits: Tensor, labels: Tensor
) -> None:
    def worst_confidence(probs: Tensor, labels: Tensor) -> float:
        return float(probs.amax(dim=1).min())

    own = M.Metric("worst", worst_confidence, "smallest confidence; in [0, 1]")
    monkeypatch.setitem(M.METRICS, "worst", own)
    expected = float(torch.softmax(logits, dim=1).amax(dim=1).min())
    assert M.evaluate(logits, labels, ["worst"]) == {"worst": pytest.approx(expected)}


def test_epoch_metrics_include_those_of_schedulers_and_progress() -> None:
    assert set(M.EPOCH_METRICS) == {"nll", "error", "ece", "adaptive_ece", "brier"}


def test_a_metric_of_two_classes_is_left_out_of_more_and_does_not_depend_on_their_order() -> None:
    draw = torch.Generator().manual_seed(0)
    logits = torch.randn(900, 2, generator=draw, dtype=torch.float64)
    labels = torch.multinomial(torch.softmax(1.5 * logits, dim=1), 1, generator=draw)[:, 0]
    probs, found = torch.softmax(logits, dim=1), M.evaluate(logits, labels)
    assert {*found} == {*M.METRICS} - {*M.ON_REQUEST}
    gaps = (probs[:, 1] - labels)[probs[:, 1].argsort()].reshape(15, 60).mean(dim=1)
    assert found["event_ece"] == pytest.approx(float(gaps.abs().mean()))
    assert M.event_calibration_error(probs.flip(1), 1 - labels) == pytest.approx(found["event_ece"])
    assert M.interval("event_ece", probs, labels) == M.interval(
        "classwise_adaptive_ece", probs, labels
    )
    more = torch.randn(90, 3, generator=draw)
    assert "event_ece" not in M.evaluate(more, labels[:90])
    assert "event_ece" not in M.intervals(torch.softmax(more, dim=1), labels[:90])
    with pytest.raises(ValueError, match="defined for two classes, not 3"):
        M.evaluate(more, labels[:90], ["event_ece"])
