"""Judging predictions from files and from memory."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from pyarrow import csv
from typer.testing import CliRunner

import calsweep
from sweeps.cli import app
from sweeps.errors import UserError
from sweeps.judging.inputs import check_predicted
from sweeps.judging.reading import read_predictions
from trainables import metrics as M
from trainables.posthoc import TemperatureScaling, cross_fitted


def draw(count: int = 600, classes: int = 4, scale: float = 2.0, seed: int = 0) -> Any:
    """Logits that are too large by ``scale``, and labels."""
    random = np.random.default_rng(seed)
    truth = 1.5 * random.standard_normal((count, classes))
    probs = softmax(truth)
    labels = (probs.cumsum(axis=1) < random.random((count, 1))).sum(axis=1)
    return scale * truth, labels


def softmax(logits: Any) -> Any:
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


LOGITS, LABELS = draw()
PROBS = softmax(LOGITS)


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["judge", *arguments], catch_exceptions=False)
    assert result.exit_code == 0
    return result.output


def facts(*arguments: str) -> Any:
    return json.loads(run(*arguments, "--format", "json"))


def test_findings_agree_with_metrics_and_scaling() -> None:
    judgement = calsweep.judge(PROBS, LABELS)
    model = judgement.facts["models"][0]
    probs, labels = torch.from_numpy(PROBS), torch.from_numpy(LABELS)
    for name in ("ece", "nll", "auroc"):
        value, low, high = M.interval(name, probs, labels)
        assert judgement.metrics[name] == pytest.approx({"value": value, "low": low, "high": high})
    logits = torch.from_numpy(LOGITS)
    crossed = cross_fitted(logits, labels)
    expected = M.evaluate(crossed, labels, ["nll"])["nll"]
    assert model["scaling"]["temperature"]["nll"]["value"] == pytest.approx(expected)
    assert model["temperature"] == pytest.approx(
        TemperatureScaling().fit(logits, labels).temperature
    )
    assert model["recommended"] == judgement.recommended == "temperature"
    assert model["refinement"] == pytest.approx(expected)
    assert model["calibration"] + model["refinement"] == pytest.approx(
        judgement.metrics["nll"]["value"]
    )
    assert model["direction"]["word"] == "overconfident"
    assert "overconfident" in repr(judgement)


def test_logits_and_their_probabilities_are_judged_alike() -> None:
    of_logits = calsweep.judge(LOGITS, LABELS, logits=True).facts["models"][0]
    of_probs = calsweep.judge(PROBS, LABELS).facts["models"][0]
    assert of_logits["temperature"] == pytest.approx(of_probs["temperature"], rel=1e-6)
    assert of_logits["metrics"]["ece"] == pytest.approx(of_probs["metrics"]["ece"])


def test_a_calibrated_model_has_no_direction_and_no_class_is_flagged() -> None:
    logits, labels = draw(3000, scale=1.0)
    model = calsweep.judge(logits, labels, logits=True).facts["models"][0]
    assert model["direction"]["word"] == "neither"
    assert {each["word"] for each in model["per_class"]} == {"neither"}


def write(path: Path, kind: str) -> Path:
    """Write the same predictions in one of the file formats."""
    match kind:
        case "npz":
            np.savez(path.with_suffix(".npz"), probs=PROBS, labels=LABELS)
            return path.with_suffix(".npz")
        case "npz of logits":
            np.savez(path.with_suffix(".npz"), logits=LOGITS, y=LABELS)
            return path.with_suffix(".npz")
        case "csv":
            columns = {f"prob_{k}": PROBS[:, k] for k in range(4)} | {"label": LABELS}
            csv.write_csv(pa.table(columns), path.with_suffix(".csv"))
            return path.with_suffix(".csv")
        case "csv of words":  # format of `calsweep predict`
            names = np.array(["cat", "dog", "bird", "fish"])
            columns = {f"p({name})": PROBS[:, k] for k, name in enumerate(names)}
            columns |= {"sample": np.arange(600), "target": names[LABELS]}
            csv.write_csv(pa.table(columns), path.with_suffix(".csv"))
            return path.with_suffix(".csv")
        case "parquet":  # format of trials
            flat = pa.array(LOGITS.reshape(-1))
            columns = {"label": LABELS, "logits": pa.FixedSizeListArray.from_arrays(flat, 4)}
            pq.write_table(pa.table(columns), path.with_suffix(".parquet"))
            return path.with_suffix(".parquet")
    raise AssertionError(kind)


@pytest.mark.parametrize("kind", ["npz", "npz of logits", "csv", "csv of words", "parquet"])
def test_every_kind_of_file_is_read(kind: str, tmp_path: Path) -> None:
    (model,) = read_predictions([str(write(tmp_path / "ours", kind))])
    assert model.name == "ours"
    assert torch.equal(model.labels, torch.from_numpy(LABELS))
    torch.testing.assert_close(model.probs, torch.from_numpy(PROBS), atol=1e-6, rtol=0)
    if kind == "csv of words":
        assert model.classes == ("cat", "dog", "bird", "fish")


def test_npy_with_labels_beside_it(tmp_path: Path) -> None:
    np.save(tmp_path / "probs.npy", PROBS.astype(np.float16))
    np.save(tmp_path / "logits.npy", LOGITS)
    np.save(tmp_path / "y.npy", LABELS)
    labels = str(tmp_path / "y.npy")
    first, second = read_predictions(
        [str(tmp_path / "probs.npy"), str(tmp_path / "logits.npy")], labels=labels
    )
    torch.testing.assert_close(first.probs.double(), second.probs, atol=1e-3, rtol=0)


def test_two_classes_may_have_one_column() -> None:
    one = check_predicted("x", PROBS[:, 0], (LABELS == 0).astype(int))
    assert one.probs.shape == (600, 2)
    torch.testing.assert_close(one.probs[:, 1], torch.from_numpy(PROBS[:, 0]))


@pytest.mark.parametrize(
    ("probs", "labels", "message"),
    [
        (LOGITS, LABELS, r"values run from -.*probabilities lie between 0 and 1.*logits, say so"),
        (100 * PROBS, LABELS, r"each row sums to 100: these are percent; divide by 100"),
        (PROBS, LABELS + 1, r"labels run from 1 to 4, but 4 classes are numbered .*: subtract 1"),
        (PROBS, LABELS + 2, r"labels run from 2 to 5; allowed: 0 to 3, for 4 columns"),
        (PROBS * [[0.5]], LABELS, r"row \d+ \(from 0\) sums to 0.5; the probabilities"),
        (PROBS, LABELS[:-1], r"labels have shape \(599,\); \(600,\) is needed"),
        (PROBS, LABELS + 0.5, r"labels must be integers or names of classes, not float64"),
        (PROBS * math.nan, LABELS, r"row 0 \(from 0\) of the predictions has NaN"),
        (PROBS, np.array(["cat"] * 600), r"label 'cat' is not a class; the classes are 0, 1, 2, 3"),
        (PROBS[:1], LABELS[:1], r"has 1 samples; at least 2"),
        (np.array([["a"]]), [0], r"predictions must be numbers"),
    ],
)
def test_mistakes_get_a_clear_message(probs: Any, labels: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        calsweep.judge(probs, labels)


def test_probabilities_as_logits() -> None:
    with pytest.raises(UserError, match="these logits look like probabilities"):
        calsweep.judge(PROBS, LABELS, logits=True)


def test_the_command_ends_with_one_message_and_exit_code_2(tmp_path: Path) -> None:
    np.savez(tmp_path / "bad.npz", probs=LOGITS, labels=LABELS)
    np.savez(tmp_path / "none.npz", probs=PROBS)
    (tmp_path / "notes.txt").write_text("hello")
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 and no more")
    for file, message in {
        "bad.npz": "bad: values run from",
        "none.npz": "holds no labels; needed: a key or column labels",
        "notes.txt": "is not a file of predictions; allowed: .npz, .npy, .csv, .parquet",
        "broken.parquet": "cannot be read",
        "gone.csv": "cannot be read",
    }.items():
        with pytest.raises(UserError) as caught:
            CliRunner().invoke(
                app, ["judge", str(tmp_path / file)], catch_exceptions=False, standalone_mode=False
            )
        assert message in str(caught.value)
        assert "\n" not in str(caught.value)


def test_two_files_are_compared_on_the_same_samples(tmp_path: Path) -> None:
    good, worse = tmp_path / "good.npz", tmp_path / "worse.npz"
    np.savez(good, logits=LOGITS / 2, labels=LABELS)
    np.savez(worse, logits=LOGITS * 2, labels=LABELS)
    found = facts(str(good), str(worse))
    by_metric = {each["metric"]: each for each in found["comparison"]}
    assert [model["name"] for model in found["models"]] == ["good", "worse"]
    assert by_metric["nll"]["verdict"] == "worse"
    assert by_metric["error"]["verdict"] == "not supported"
    expected = found["models"][1]["metrics"]["nll"]["value"]
    expected -= found["models"][0]["metrics"]["nll"]["value"]
    assert by_metric["nll"]["value"] == pytest.approx(expected)
    np.savez(worse, logits=LOGITS, labels=LABELS[::-1])
    with pytest.raises(UserError, match=r"different labels in \d+ rows, first in row \d+"):
        facts(str(good), str(worse))


def test_columns_may_name_models_and_groups(tmp_path: Path) -> None:
    both = np.concatenate([PROBS, softmax(LOGITS / 2)])
    columns = {f"probs.{k}": both[:, k] for k in range(4)}
    columns |= {"label": np.tile(LABELS, 2), "model": ["a"] * 600 + ["b"] * 600}
    columns["site"] = ["north"] * 300 + ["south"] * 290 + ["west"] * 10 + ["north"] * 600
    csv.write_csv(pa.table(columns), tmp_path / "all.csv")
    found = facts(str(tmp_path / "all.csv"), "--group", "site")
    first, second = found["models"]
    assert (first["name"], second["name"]) == ("a", "b")
    groups = {each["group"]: each for each in first["per_group"]}
    assert [groups[name]["samples"] for name in ("north", "south", "west")] == [300, 290, 10]
    rows, labels = torch.from_numpy(PROBS[:300]), torch.from_numpy(LABELS[:300])
    assert groups["north"]["ece"]["value"] == pytest.approx(
        M.expected_calibration_error(rows, labels)
    )
    assert "ece" not in groups["west"]  # ten samples are too few
    with pytest.raises(UserError, match="has no 'place'"):
        facts(str(tmp_path / "all.csv"), "--group", "place")


def test_table_and_page(tmp_path: Path) -> None:
    np.savez(tmp_path / "one.npz", logits=LOGITS, labels=LABELS)
    np.savez(tmp_path / "<two>.npz", logits=LOGITS / 2, labels=LABELS)
    files = [str(tmp_path / name) for name in ("one.npz", "<two>.npz")]
    table = run(*files)
    for part in ("ECE", "overconfident", "structured vector", "90% prediction sets", "supported"):
        assert part in table
    page = tmp_path / "page.html"
    assert run(*files, "--format", "html", "--output", str(page)) == f"written: {page}\n"
    text = page.read_text()
    assert "&lt;two&gt;" in text
    assert "<two>" not in text
    assert text.count("<svg") == 2
    assert "Prediction sets" in text


def test_prediction_sets_cover_and_small_files_have_none() -> None:
    logits, labels = draw(4000)
    sets = calsweep.judge(logits, labels, logits=True).facts["models"][0]["sets"]
    assert sets["lac"]["low"] <= 0.9 <= sets["lac"]["high"]
    assert sets["aps"]["low"] <= 0.91
    assert sets["lac"]["size"] < sets["aps"]["size"]
    assert calsweep.judge(PROBS[:100], LABELS[:100]).facts["models"][0]["sets"] == {}


def test_a_probability_of_zero_for_the_label_is_finite() -> None:
    probs = np.array([[1.0, 0.0], [0.0, 1.0], [0.7, 0.3], [0.4, 0.6]] * 10)
    labels = np.array([1, 1, 0, 0] * 10)
    model = calsweep.judge(probs, labels).facts["models"][0]
    assert math.isfinite(model["metrics"]["nll"]["value"])
    assert math.isfinite(model["refinement"])
