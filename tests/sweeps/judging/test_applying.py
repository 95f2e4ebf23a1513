"""What is recommended is applied; thresholds hold; conditions end with exit code 3."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.special import expit
from typer.testing import CliRunner

import calsweep
from sweeps.cli import app
from sweeps.errors import UserError
from sweeps.judging.decisions import Decisions
from sweeps.judging.thresholds import accepted_share, cost_threshold

DRAW = np.random.default_rng(0)
SCORES = DRAW.normal(-2, 1.5, 3000)
EVENT = DRAW.random(3000) < expit(SCORES)
TOO_SURE = expit(2.2 * SCORES)


def run(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["judge", *arguments])


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("applied") / "a.npz"
    probs = np.stack([1 - TOO_SURE, TOO_SURE], axis=1)
    labels = np.array(["no", "yes"])[EVENT.astype(int)]
    np.savez(path, probs=probs, labels=labels, classes=np.array(["no", "yes"]))
    return path


def test_a_recommended_scaling_is_written_saved_and_applied_to_a_new_file(file: Path) -> None:
    scaled, scaling = file.parent / "scaled.npz", file.parent / "scaling.json"
    given = run(str(file), "--write-scaled", str(scaled), "--save-scaling", str(scaling))
    assert given.exit_code == 0
    assert json.loads(scaling.read_text())["classes"] == ["no", "yes"]
    probs = np.load(scaled)["probs"]
    assert probs[:, 1].mean() == pytest.approx(EVENT.mean(), abs=0.01)
    judged = calsweep.judge(probs, EVENT.astype(int))
    assert judged.recommended == "none"
    # The same on a file without labels, whose columns have another order.
    new = file.parent / "new.csv"
    rows = "\n".join(f"{p!r},{1 - p!r}" for p in TOO_SURE[:50].tolist())
    new.write_text(f"prob_yes,prob_no\n{rows}\n")
    out = file.parent / "out.csv"
    done = CliRunner().invoke(
        app, ["scale", str(new), "--with", str(scaling), "--output", str(out)]
    )
    assert done.exit_code == 0, done.output
    lines = out.read_text().splitlines()
    assert lines[0] == "p(yes),p(no)"
    assert [float(line.split(",")[0]) for line in lines[1:]] == pytest.approx(probs[:50, 1])
    model = calsweep.judge(np.stack([1 - TOO_SURE, TOO_SURE], axis=1), EVENT.astype(int))
    again = model.scaling(np.stack([1 - TOO_SURE, TOO_SURE], axis=1))
    assert again == pytest.approx(probs)


@pytest.mark.parametrize("named", [False, True])
def test_a_scaling_of_classes_with_numbers_as_names_is_applied(tmp_path: Path, named: bool) -> None:
    """Of predictions without labels, arrays in the order of the classes, or with their names."""
    probs, labels = np.stack([1 - TOO_SURE, TOO_SURE], axis=1), 1 + EVENT
    names = {"classes": np.array([1, 2])}
    file, new, scaling, out = (tmp_path / each for each in ("a.npz", "b.npz", "s.json", "o.npz"))
    np.savez(file, probs=probs, labels=labels, **names)
    np.savez(new, probs=probs[:50], **(names if named else {}))
    assert run(str(file), "--save-scaling", str(scaling)).exit_code == 0
    arguments = ["scale", str(new), "--with", str(scaling), "--output", str(out)]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    judgement = calsweep.judge(probs, labels, classes=["1", "2"])
    assert judgement.recommended == "temperature"
    assert np.load(out)["probs"] == pytest.approx(judgement.scaling(probs[:50]))


def test_a_condition_that_holds_beyond_chance_ends_with_code_3(file: Path) -> None:
    assert run(str(file), "--fail-if", "event_ece > .01").exit_code == 3
    assert run(str(file), "--fail-if", "event_ece > .2").exit_code == 0
    assert run(str(file), "--fail-if", "auroc < .95").exit_code == 3
    for wrong in ("ece", "ece > x", "eec > .1", "mce > .1"):
        with pytest.raises(UserError, match=r"fail_if = |has no interval"):
            run_strictly(str(file), "--fail-if", wrong)


def run_strictly(*arguments: str) -> None:
    found = run(*arguments)
    if found.exception is not None and not isinstance(found.exception, SystemExit):
        raise found.exception


def test_the_threshold_of_costs_is_the_cheapest() -> None:
    probs, event = torch.from_numpy(expit(SCORES)), torch.from_numpy(EVENT)
    found = cost_threshold("yes", probs, event, (1.0, 20.0), None)
    assert found.threshold == pytest.approx(1 / 21)
    assert found.saved.low > 0
    assert found.cost.value == pytest.approx(found.usual.value - found.saved.value)
    for other in (0.02, 0.2):
        alarm = expit(SCORES) >= other
        assert (alarm & ~EVENT).mean() + 20 * (~alarm & EVENT).mean() > found.cost.value
    assert "Decide yes from P(yes) = 0.04762" in found.line


def test_the_error_of_accepted_samples_stays_below_the_limit_in_95_percent() -> None:
    draw = torch.Generator().manual_seed(0)
    broken = covered = 0
    for _ in range(200):
        confidence = 0.7 + 0.3 * torch.rand(600, generator=draw, dtype=torch.float64)
        correct = torch.rand(600, generator=draw, dtype=torch.float64) < confidence
        found = accepted_share(confidence, correct, 0.1)
        if found.threshold is not None:
            covered += 1
            broken += 1 - (found.threshold + 1) / 2 > 0.1  # the true error above the threshold
    assert covered > 100
    assert broken <= 0.05 * 200
    assert accepted_share(confidence[:20], correct[:20], 0.01).threshold is None


def test_wrong_questions_are_refused(file: Path) -> None:
    for costs, error in (("fp=1", None), ("fp=0,fn=1", None), (None, 1.5)):
        with pytest.raises(UserError, match=r"costs = |accept_error = "):
            Decisions.parse(costs, error)
    printed = run(str(file), "--costs", "fp=1,fn=20", "--accept-error", ".05").output
    assert "Decide yes from P(yes) = 0.04762" in printed
    assert "Accept predictions with a confidence of at least" in printed


def test_sets_of_each_class_cover_the_rare_one_too(file: Path) -> None:
    draw = np.random.default_rng(1)
    score = draw.normal(-3.2, 1, 8000)
    event = draw.random(8000) < expit(score)
    path = file.parent / "rare.npz"
    np.savez(path, probs=expit(score), labels=event.astype(int))
    lac = json.loads(run(str(path), "--format", "json").output)["models"][0]["sets"]["lac"]
    assert lac["value"] > 0.9 and lac["per_class"]["1"]["high"] < 0.3
    assert "Sets for each class: --sets per_class." in " ".join(run(str(path)).output.split())
    again = run(str(path), "--format", "json", "--sets", "per_class").output
    sets = json.loads(again)["models"][0]["sets"]
    assert sets["kind"] == "per_class"
    assert sets["lac"]["per_class"]["1"]["high"] > 0.9 > sets["lac"]["per_class"]["1"]["low"]
    assert sets["lac"]["size"] > lac["size"]


def test_models_are_also_compared_after_scaling() -> None:
    """The better one is overconfident, so it loses as given, and wins after scaling."""
    draw = np.random.default_rng(3)
    good = draw.normal(0, 2, 4000)
    event = (draw.random(4000) < expit(good)).astype(int)
    noisy = 0.45 * (good + draw.normal(0, 1.5, 4000))
    both = {"noisy": expit(noisy), "good": expit(4 * good)}
    found = calsweep.judge(both, event)
    given, scaled = (
        {each["metric"]: each["verdict"] for each in found.facts[key]}
        for key in ("comparison", "comparison_scaled")
    )
    assert (given["nll"], scaled["nll"]) == ("worse", "supported")
    assert "Use good, with a temperature of 3.87." in repr(found)
    same = calsweep.judge({"a": expit(good), "b": expit(good)}, event)
    assert "After scaling, no difference of NLL beyond chance: use a, as it is, or b" in repr(same)
    assert "After scaling" in found.html()
