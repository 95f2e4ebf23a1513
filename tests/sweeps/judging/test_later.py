"""Later data: a shift of the prior and a change of shape are separated."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.special import expit, logit
from typer.testing import CliRunner

from sweeps.cli import app
from sweeps.judging.applied import NamedScaling
from trainables.posthoc.prior_shift import estimated_priors, prior_interval, with_priors

DRAW = np.random.default_rng(2)


def scores(rate: float, rows: int, factor: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Calibrated where 2.6 % default, of samples of which another share does, and what happened."""
    default = DRAW.random(rows) < rate
    evidence = 1.8 * DRAW.normal(1.8 * default, 1) - 1.62  # the log of the likelihood ratio
    return expit(factor * (evidence + logit(0.026))), default


def saved(path: Path, rate: float, factor: float = 1.0) -> str:
    probs, default = scores(rate, 8000, factor)
    labels = np.array(["repaid", "default"])[default.astype(int)]
    both = np.stack([1 - probs, probs], axis=1)
    np.savez(path, probs=both, labels=labels, classes=np.array(["repaid", "default"]))
    return str(path)


def run(*arguments: str) -> str:
    done = CliRunner().invoke(app, ["judge", *arguments])
    assert done.exit_code == 0, done.output
    return done.output


def test_a_shift_of_the_prior_is_the_first_sentence_and_is_followed(tmp_path: Path) -> None:
    then = saved(tmp_path / "then.npz", 0.026)
    now = saved(tmp_path / "now.npz", 0.08)
    scaling = tmp_path / "prior.json"
    lines = run(now, "--against", then, "--save-scaling", str(scaling)).splitlines()
    assert lines[0].startswith("The prior has shifted, the shape has not: 2.")
    assert lines[1].startswith("P(default) is ")
    assert "too low by" in lines[1]
    assert lines[2].startswith("Since then: ")
    offsets = NamedScaling.read(scaling).scaling.offsets
    assert offsets is not None
    odds = math.log(0.08 / 0.92 / (0.026 / 0.974))
    assert float(offsets[1] - offsets[0]) == pytest.approx(odds, abs=0.3)
    found = json.loads(run(now, "--against", then, "--format", "json"))["later"]
    assert found["prior"]["cause"] == "prior"
    assert found["prior"]["now"]["low"] < 0.08 < found["prior"]["now"]["high"]
    page = run(now, "--against", then, "--format", "html", "--output", str(tmp_path / "now.html"))
    assert "The prior has shifted, the shape has not: 2." in page
    changed = {each["metric"]: each for each in found["changes"]}
    assert changed["event_ece"]["low"] > 0
    assert changed["auroc"]["low"] < 0 < changed["auroc"]["high"]


def test_a_shift_of_the_prior_follows_the_scaling_of_earlier_data(tmp_path: Path) -> None:
    then, now = (saved(tmp_path / f"{rate}.npz", rate, factor=1.6) for rate in (0.026, 0.08))
    path = tmp_path / "both.json"
    asked = "--event", "repaid", "--format", "json", "--save-scaling", str(path)
    done = CliRunner().invoke(app, ["judge", now, "--against", then, *asked])
    prior = json.loads(done.stdout)["later"]["prior"]
    assert prior["cause"] == "prior"
    assert (prior["event"], prior["then"]) == ("repaid", pytest.approx(0.974, abs=0.01))
    scaling = NamedScaling.read(path).scaling
    assert float(scaling.temperature) == pytest.approx(1.6, abs=0.3)
    assert scaling.offsets is not None
    odds = math.log(0.08 / 0.92 / (0.026 / 0.974))
    assert float(scaling.offsets[1] - scaling.offsets[0]) == pytest.approx(odds, abs=0.3)


def test_a_change_of_shape_is_no_shift_of_the_prior(tmp_path: Path) -> None:
    then = saved(tmp_path / "then.npz", 0.026)
    same = saved(tmp_path / "same.npz", 0.026)
    other = saved(tmp_path / "other.npz", 0.026, factor=0.6)
    assert run(other, "--against", then).startswith("More than the prior has changed: ")
    unchanged = run(same, "--against", then)
    assert unchanged.startswith("P(default) is 2.")
    assert "no difference beyond chance" in unchanged.splitlines()[0]
    assert "no metric has changed beyond chance" in unchanged


def test_odds_that_rise_for_all_are_no_shift_of_the_prior(tmp_path: Path) -> None:
    files = [saved(tmp_path / "then.npz", 0.026)]
    probs, _ = scores(0.026, 60_000)
    labels = (DRAW.random(len(probs)) < expit(logit(probs) + 1)).astype(int)
    files.append(str(tmp_path / "now.npz"))
    names = np.array(["repaid", "default"])
    np.savez(files[1], probs=np.stack([1 - probs, probs], 1), labels=names[labels], classes=names)
    assert run(files[1], "--against", files[0]).startswith("At equal scores the odds of default")


def test_classes_and_groups_whose_gap_has_changed_are_named(tmp_path: Path) -> None:
    draw, files = np.random.default_rng(0), []
    for shift in (0.0, 1.5):
        logits = draw.normal(0, 1.5, (3000, 3))
        region = np.array(["north", "south"])[np.arange(3000) % 2]
        true = logits + shift * np.outer(region == "south", [0, 0, 1])
        labels = (true + draw.gumbel(size=true.shape)).argmax(axis=1)
        files.append(str(tmp_path / f"{shift}.npz"))
        np.savez(files[-1], logits=logits, labels=labels, region=region)
    lines = run(files[1], "--against", files[0], "--group", "region").splitlines()
    assert any(line.startswith("Classes whose gap has changed: 0 ") for line in lines)
    [groups] = [line for line in lines if line.startswith("Groups whose gap has changed: south ")]
    assert "north" not in groups


def test_priors_are_estimated_by_em_and_probabilities_follow_them() -> None:
    event, _ = scores(0.1, 20_000)
    probs = torch.from_numpy(np.stack([1 - event, event], axis=1))
    old = torch.tensor([0.974, 0.026], dtype=torch.float64)
    new = estimated_priors(probs, old)
    assert float(new.sum()) == pytest.approx(1)
    assert float(new[1]) == pytest.approx(0.1, abs=0.01)
    moved = with_priors(probs, old, new)
    assert float(moved[:, 1].mean()) == pytest.approx(float(new[1]), abs=1e-6)  # a fixed point
    value, low, high = prior_interval(probs[:, 1], (0.026, 0.0226, 0.0297))
    assert value == pytest.approx(float(new[1]), abs=1e-6)
    assert low < 0.1 < high


def test_certain_predictions_have_finite_logits_after_a_shift(tmp_path: Path) -> None:
    files, draw = [], np.random.default_rng(0)
    for name, rate in (("then", 0.1), ("now", 0.3)):
        event = draw.random(400) < rate
        scores = 2 * draw.normal(2 * event, 1) - 4
        scores[:20] = np.where(event[:20], 2000, -2000)
        files.append(str(tmp_path / f"{name}.npz"))
        np.savez(files[-1], logits=np.stack([0 * scores, scores], 1), labels=event.astype(int))
    assert "% were class 1; the scores alone show 3" in run(files[1], "--against", files[0])
