"""The probability of the event: words, shape, classes and groups."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import expit
from typer.testing import CliRunner

import calsweep
from sweeps.cli import app
from sweeps.errors import UserError
from sweeps.judging.event_bins import event_bins
from sweeps.messages.shares import percent

NAMES = ("repaid", "default")


def bank(mean: float, rate: float, rows: int = 8000) -> tuple[Any, Any]:
    """Probabilities of default with this mean, where this share defaults, and labels as words."""
    draw = np.random.default_rng(5)
    odds = expit(draw.normal(-4.6, 1, rows))
    happened = draw.permutation(rows) < round(rate * rows)
    order = (odds + draw.normal(0, 0.02, rows)).argsort()[::-1]  # likelier ones default more often
    happened = np.isin(np.arange(rows), order[: 4 * happened.sum()][::4])
    event = np.clip(odds * (mean / odds.mean()), 1e-6, 1)
    return np.stack([1 - event, event], axis=1), np.array(NAMES)[happened.astype(int)]


def first_line(judgement: calsweep.Judgement) -> str:
    """The first sentence about the first model."""
    return repr(judgement).splitlines()[2].strip()


@pytest.mark.parametrize(
    ("mean", "rate", "sentence"),
    [
        (
            0.012,
            0.026,
            "P(default) is 1.2 % on average, 2.6 % are default [2.27, 2.97]: too low by a factor "
            "of 2.2.",
        ),
        (
            0.0372,
            0.026,
            "P(default) is 3.7 % on average, 2.6 % are default [2.27, 2.97]: too high by 43 %.",
        ),
        (
            0.026,
            0.026,
            "P(default) is 2.6 % on average, 2.6 % are default [2.27, 2.97]: no difference beyond "
            "chance.",
        ),
    ],
)
def test_the_first_sentence_says_whether_the_event_is_expected_too_often(
    mean: float, rate: float, sentence: str
) -> None:
    judged = calsweep.judge(*bank(mean, rate), classes=NAMES)
    without_ends = re.sub(r"\[.*?\]", "[]", sentence)
    assert re.sub(r"\[.*?\]", "[]", first_line(judged)) == without_ends
    found = judged.facts["models"][0]["event"]
    assert (found["name"], found["events"]) == ("default", 208)
    low, high = found["frequency"]["low"], found["frequency"]["high"]
    assert (low, high) == pytest.approx((0.0226, 0.0297), abs=5e-4)


def test_a_wrong_shape_has_a_slope_and_words_of_the_event() -> None:
    draw = np.random.default_rng(0)
    scores = draw.random(4000)
    judged = calsweep.judge(scores, (draw.random(4000) < scores**1.5).astype(int))
    event = judged.facts["models"][0]["event"]
    assert (event["name"], event["level"]) == ("1", "too high")
    assert event["slope"]["low"] > 1 and event["intercept"]["high"] < -0.5
    assert "the probabilities are not extreme enough" in repr(judged)
    assert first_line(judged).startswith("P(class 1) is 49.7 %")
    metrics = judged.metrics
    assert list(metrics)[:2] == ["event_ece", "auroc"]
    assert metrics["event_ece"]["low"] > 0.07 > metrics["ece"]["value"]


def test_the_event_is_the_rarer_class_unless_it_is_named(tmp_path: Path) -> None:
    probs, labels = bank(0.03, 0.03)
    assert first_line(calsweep.judge(probs, labels, classes=NAMES, event="repaid")).startswith(
        "P(repaid) is 97.0 % on average"
    )
    np.savez(tmp_path / "a.npz", probs=probs, labels=labels, classes=np.array(NAMES))
    printed = CliRunner().invoke(app, ["judge", str(tmp_path / "a.npz"), "--event", "repaid"])
    assert "P(repaid) is 97.0 %" in printed.output.splitlines()[3]
    with pytest.raises(UserError, match="event 'late' is not a class; the classes are repaid"):
        calsweep.judge(probs, labels, classes=NAMES, event="late")
    with pytest.raises(UserError, match=r"event '2' needs .* two classes; there are 3 classes"):
        calsweep.judge(np.full((60, 3), 1 / 3), np.arange(60) % 3, event="2")


def test_groups_have_words_of_the_event_and_pages_its_diagram(tmp_path: Path) -> None:
    probs, labels = bank(0.1, 0.1, 4000)
    site = np.where(np.arange(4000) % 2, "north", "south")
    probs[site == "north"] = probs[site == "north"] ** np.array([[1.0, 2.5]])
    probs /= probs.sum(axis=1, keepdims=True)
    judged = calsweep.judge(
        {"a": probs, "b": probs[:, [0, 1]] * 0.5 + 0.25}, labels, groups=site, classes=NAMES
    )
    levels = {each["group"]: each["level"] for each in judged.facts["models"][0]["per_group"]}
    assert levels == {"north": "too low", "south": "neither"}
    assert {each["metric"] for each in judged.facts["comparison"]} == {
        "nll",
        "brier",
        "event_ece",
        "error",
    }
    page = judged.html()
    assert "too low by a factor of" in page
    assert page.count("samples, mean probability") >= 2 * 15


def test_few_classes_have_mean_probabilities_and_frequencies() -> None:
    draw = np.random.default_rng(1)
    logits = draw.normal(0, 1, (3000, 3))
    truth = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    labels = (truth.cumsum(axis=1) < draw.random((3000, 1))).sum(axis=1)
    shifted = truth * [1.0, 1.0, 1.4]
    found = calsweep.judge(shifted / shifted.sum(axis=1, keepdims=True), labels)
    per_class = found.facts["models"][0]["per_class"]
    assert [each["level"] for each in per_class] == ["too low", "too low", "too high"]
    for index, each in enumerate(per_class):
        assert each["frequency"]["value"] == pytest.approx((labels == index).mean())
    assert "event" not in found.facts["models"][0]
    json.dumps(found.facts)


def test_bins_of_the_event_hold_all_samples_and_ties_share_one() -> None:
    probs = np.array([0.1] * 50 + [0.2] * 20 + [0.3] * 30)
    found = event_bins(probs, probs == 0.2)
    assert found.counts == (50, 20, 30)
    assert found.means == pytest.approx((0.1, 0.2, 0.3))
    assert found.frequencies == (0, 1, 0)
    assert found.lows[0] == 0 and found.highs[1] == 1
    assert found.highs[0] == pytest.approx(1 - 0.025 ** (1 / 50))
    even = event_bins(np.linspace(0, 1, 1500), np.ones(1500), independent=False)
    assert even.counts == (100,) * 15
    assert even.lows == ()


def test_percent_has_two_digits_or_one_decimal() -> None:
    assert [percent(v) for v in (0, 0.00034, 0.012, 0.264, 0.998, 1)] == [
        *("0", "0.034", "1.2", "26.4", "99.8", "100")
    ]
    assert (percent(0.02253, 3), percent(3e-12)) == ("2.25", "3e-10")
