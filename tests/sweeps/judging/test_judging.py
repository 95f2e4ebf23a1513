"""Judging predictions from files and from memory."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from pyarrow import csv
from typer.testing import CliRunner

import calsweep
from calsweep.judging import frame_classes
from sweeps.cli import app
from sweeps.errors import UserError
from sweeps.judging.inputs import Scores, check_predicted
from sweeps.judging.reading import read_predictions
from sweeps.judging.tables import Asked
from trainables import metrics as M
from trainables.posthoc import TemperatureScaling, choose, cross_fitted


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
    judgement = calsweep.judge(PROBS, LABELS, also=["canonical_kde_ece", "nll_aurc", "mean_iou"])
    model = judgement.facts["models"][0]
    probs, labels = torch.from_numpy(PROBS), torch.from_numpy(LABELS)
    for name in ("ece", "nll", "auroc"):
        value, low, high = M.interval(name, probs, labels)
        assert judgement.metrics[name] == pytest.approx({"value": value, "low": low, "high": high})
    logits = torch.from_numpy(LOGITS)
    crossed = cross_fitted(logits, labels, num_folds=5)
    expected = M.evaluate(crossed, labels, ["nll"])["nll"]
    assert model["scaling"]["temperature"]["nll"]["value"] == pytest.approx(expected)
    gap = judgement.metrics["nll"]["value"] - expected
    assert model["scaling"]["temperature"]["gap"]["value"] == pytest.approx(gap)
    canonical = M.kde_calibration_error(probs, labels)
    assert judgement.metrics["canonical_kde_ece"]["value"] == pytest.approx(canonical)
    with pytest.raises(UserError, match="also = auc: allowed: canonical_kde_ece, nll_aurc"):
        calsweep.judge(PROBS, LABELS, also=["auc"])
    assert model["temperature"] == pytest.approx(
        TemperatureScaling().fit(logits, labels).temperature
    )
    best = choose(logits, labels)
    assert model["recommended"] == judgement.recommended == best.candidate.name
    assert model["refinement"] == pytest.approx(float(best.losses[best.candidate].mean()))
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
        [str(tmp_path / "probs.npy"), str(tmp_path / "logits.npy")], Asked(labels=labels)
    )
    torch.testing.assert_close(first.probs.double(), second.probs, atol=1e-3, rtol=0)


def test_two_classes_may_have_one_column() -> None:
    one = check_predicted("x", Scores(PROBS[:, 0]), (LABELS == 0).astype(int))
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
        (PROBS, np.array(["cat"] * 600), r"label 'cat' .* 0, 1, 2, 3; name them: .* prob_cat"),
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
    np.savez(tmp_path / "objects.npz", probs=PROBS, labels=np.array(["a"] * 600, dtype=object))
    (tmp_path / "empty.csv").write_text("prob_0,prob_1,label\n.5,.5,0\n,.5,0\n.5,.5,1\n")
    (tmp_path / "notes.txt").write_text("hello")
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 and no more")
    for file, message in {
        "bad.npz": "bad.npz: values run from",
        "none.npz": "holds no labels (it has probs); needed: a key or column label",
        "notes.txt": "is not a file of predictions; allowed: .npz, .npy, .csv, .tsv, .parquet",
        "broken.parquet": "broken.parquet is not a Parquet file",
        "gone.csv": "gone.csv: there is no such file",
        "objects.npz": "column labels: has Python objects, which run code when they are read; save",
        "empty.csv": "column prob_0: has 1 empty cell, the first in row 1 (from 0)",
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
    columns: dict[str, Any] = {f"probs.{k}": both[:, k] for k in range(4)}
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
    for part in ("ECE", "overconfident", "structured vector", "90% prediction sets", "better"):
        assert part in table
    page = tmp_path / "page.html"
    assert run(*files, "--format", "html", "--output", str(page)) == f"written: {page}\n"
    text = page.read_text()
    assert "&lt;two&gt;" in text
    assert "<two>" not in text
    assert text.count("<svg") == 2
    for part in ("Prediction sets", "<td>Brier score</td>", "<td>excess AURC</td>"):
        assert part in text


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


def saved(folder: Path, **columns: Any) -> str:
    """A CSV file of these columns."""
    csv.write_csv(pa.table(columns), folder / "file.csv")
    return str(folder / "file.csv")


def of_classes(*names: str) -> dict[str, Any]:
    return {f"prob_{name}": PROBS[:, place] for place, name in enumerate(names)}


ERROR = float((PROBS.argmax(axis=1) != LABELS).mean())


@pytest.mark.parametrize(
    ("names", "classes"),
    [
        (["3", "4", "5", "8"], [3, 4, 5, 8]),
        (["5", "3", "8", "4"], [5, 3, 8, 4]),
        (["01", "1.5", "cat", "True"], ["01", "1.5", "cat", "True"]),
        (["1", "2", "3", "4"], [1, 2, 3, 4]),
        (["a", "s", "as", "abilities"], ["a", "s", "as", "abilities"]),
        (["class_3", "class_2", "class_1", "class_0"], [3, 2, 1, 0]),
        (["2", "0", "1", "3"], ["LABEL_2", "LABEL_0", "LABEL_1", "LABEL_3"]),
    ],
)
def test_labels_are_matched_by_name(names: Any, classes: Any, tmp_path: Path) -> None:
    [model] = read_predictions([saved(tmp_path, **of_classes(*names), y=np.array(classes)[LABELS])])
    assert M.evaluate(model.logits, model.labels)["error"] == pytest.approx(ERROR)


def test_the_class_may_come_first_in_the_name(tmp_path: Path) -> None:
    columns = {f"{name} probability": PROBS[:, place] for place, name in enumerate("abcd")}
    labels = np.array([*"abcd"])[LABELS]
    [model] = read_predictions([saved(tmp_path, **columns, true_prob=CONFIDENCE, truth=labels)])
    assert model.classes == ("a", "b", "c", "d")
    assert model.read.ignored == ("true_prob",)


def test_truth_values_are_matched_by_name() -> None:
    right = LABELS == 0
    for names in (["True", "False"], ["TRUE", "FALSE"], ["1", "0"]):
        frame = pd.DataFrame({names[1]: 1 - PROBS[:, 0], names[0]: PROBS[:, 0]})
        expected = pytest.approx(((PROBS[:, 0] > 0.5) != right).mean())
        assert calsweep.judge(frame, right).metrics["error"]["value"] == expected
        arrow = pa.Table.from_pandas(frame[names], preserve_index=False)
        for reordered in (frame, frame[names], frame[names].add_prefix("prob_"), arrow):
            for labels in (right, right.astype(int), right.astype(float)):
                classes = frame_classes(reordered)
                model = check_predicted("x", Scores(reordered, classes=classes, named=True), labels)
                assert M.evaluate(model.logits, model.labels)["error"] == expected


def test_positions_do_not_count_where_columns_have_names(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="label '0' is not a class; the classes are a, b, c, d"):
        read_predictions([saved(tmp_path, **of_classes("a", "b", "c", "d"), label=LABELS)])
    with pytest.raises(UserError, match="label '0' is not a class; the classes are 1, 2, 3, 4"):
        calsweep.judge(PROBS, LABELS, classes=["1", "2", "3", "4"])
    named = calsweep.judge(PROBS, LABELS, classes=["a", "b", "c", "d"])  # their documented order
    assert named.metrics["error"]["value"] == pytest.approx(ERROR)


def test_rows_of_a_frame_and_of_labels_in_another_order_are_refused() -> None:
    labels = pd.Series(LABELS).sample(frac=1, random_state=0)
    frame = pd.DataFrame(PROBS)
    with pytest.raises(UserError, match="same index in another order"):
        calsweep.judge(frame, labels)
    found = calsweep.judge({"a": frame, "b": frame[[3, 1, 0, 2]]}, labels.loc[frame.index])
    assert [each["value"] for each in found.facts["comparison"]] == pytest.approx([0] * 4)


LOGIT = LOGITS[:, 1] - LOGITS[:, 0]
BINARY = (LABELS > 1).astype(int)
SIGMOID = 1 / (1 + np.exp(-LOGIT))


@pytest.mark.parametrize(
    "columns",
    [
        {"prob_1": SIGMOID},
        {"prob_0": 1 - SIGMOID},
        {"y_prob": SIGMOID},
        {"y_score": LOGIT},
        {"logit": LOGIT},
        {"logit_0": -LOGIT},
        {"prob_1": SIGMOID, "p_value": LOGIT},
        {"y_prob": SIGMOID, "y_pred": (LOGIT > 0).astype(int)},
        {"prob": SIGMOID, "logit": LOGIT, "y_pred": (LOGIT > 1).astype(int)},
        {"Score": 2 * LOGIT, "Probability": SIGMOID, "PredictedLabel": LOGIT > 0},  # ML.NET 4
        {"prob_1": SIGMOID, "pred": (LOGIT > 0).astype(int), "confidence": SIGMOID},
    ],
    ids=lambda columns: ", ".join(columns),
)
def test_one_score_per_sample(columns: Any, tmp_path: Path) -> None:
    [model] = read_predictions([saved(tmp_path, **columns, y_true=BINARY)])
    torch.testing.assert_close(model.probs[:, 1], torch.from_numpy(SIGMOID))
    assert torch.equal(model.labels, torch.from_numpy(BINARY))


def test_one_logit_in_memory() -> None:
    for scores in (LOGIT, LOGIT[:, None]):
        found = check_predicted("x", Scores(scores, logits=True), BINARY)
        torch.testing.assert_close(found.probs[:, 1], torch.from_numpy(SIGMOID))
    signs = check_predicted("x", Scores(SIGMOID), 2 * BINARY - 1)
    assert torch.equal(signs.labels, torch.from_numpy(BINARY))


CONFIDENCE = PROBS.max(axis=1)
WINNERS = PROBS.argmax(axis=1)


@pytest.mark.parametrize(
    ("columns", "labels", "ignored"),
    [
        ({"prob": CONFIDENCE}, "label", "prob"),
        ({"p": CONFIDENCE, "probability": CONFIDENCE}, "label", "p, probability"),
        ({"y_true": LABELS, "label": WINNERS}, "y_true", "label"),
        ({"target": LABELS, "label": WINNERS}, "target", "label"),
        ({"pred": WINNERS, "confidence": CONFIDENCE}, "label", "pred, confidence"),
        ({"y": LABELS}, "label", "y"),  # equal to the labels
        ({f"logit_{k}": np.log(PROBS[:, k]) for k in range(4)}, "label", None),
    ],
    ids=str,
)
def test_names_decide_and_the_rest_is_ignored(
    columns: Any, labels: str, ignored: str | None, tmp_path: Path
) -> None:
    file = saved(tmp_path, **of_classes(*"0123"), **{"label": LABELS} | columns)
    [model] = read_predictions([file])
    assert model.read.labels == labels
    assert ignored is None or ", ".join(model.read.ignored) == ignored
    assert M.evaluate(model.logits, model.labels)["error"] == pytest.approx(ERROR)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (
            {"target": (LABELS + 1) % 4},
            "label and target differ, and each could be the true labels; say which: `label=NAME`",
        ),
        (
            {f"logit_{k}": LOGITS[:, k] / 2 for k in range(4)},
            "logit_0, .* and prob_0, .* differ, and each could be the scores; .* `scores=NAME`",
        ),
    ],
)
def test_two_readings_that_differ_are_refused(columns: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=message):
        read_predictions([saved(tmp_path, **of_classes(*"0123"), label=LABELS, **columns)])


def test_two_single_scores_that_differ_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"logit .* and prob .* differ.*: `scores=logit` or"):
        read_predictions([saved(tmp_path, prob=SIGMOID, logit=2 * LOGIT, label=BINARY)])


def test_options_decide_between_readings(tmp_path: Path) -> None:
    columns = {f"logit_{k}": LOGITS[:, k] / 2 for k in range(4)} | {"target": (LABELS + 1) % 4}
    file = saved(tmp_path, **of_classes(*"0123"), label=LABELS, **columns)
    found = facts(file, "--label", "label", "--scores", "prob_0,prob_1,prob_2,prob_3")
    nll = -np.log(PROBS[np.arange(600), LABELS]).mean()
    assert found["models"][0]["metrics"]["nll"]["value"] == pytest.approx(nll)
    assert found["read"] == [
        "probabilities of 4 classes from prob_0, prob_1, prob_2, prob_3; labels from label; "
        "600 samples; ignored: logit_0, logit_1, logit_2, logit_3, target"
    ]


def test_predictions_may_have_another_threshold_but_must_follow_the_score(tmp_path: Path) -> None:
    thresholded = (SIGMOID > 0.2).astype(int)
    [model] = read_predictions([saved(tmp_path, y_true=BINARY, y_pred=thresholded, y_prob=SIGMOID)])
    torch.testing.assert_close(model.probs[:, 1], torch.from_numpy(SIGMOID))
    share = f"{100 * ((SIGMOID > 0.2) & (SIGMOID < 0.495)).mean():.0f} %"
    assert str(model.read).startswith(f"y_pred differs from the most likely class in {share} of")
    sure = np.where(thresholded == 1, SIGMOID, 1 - SIGMOID)
    file = saved(tmp_path, y_true=BINARY, y_pred=thresholded, y_prob=sure)
    with pytest.raises(UserError, match=r"`confidence=y_prob`.*`scores=y_prob`"):
        read_predictions([file])
    [model] = read_predictions([file], Asked(confidence="y_prob"))
    assert model.top_label_only


def test_only_the_top_label_is_known(tmp_path: Path) -> None:
    file = saved(tmp_path, label=LABELS, predicted=WINNERS, confidence=CONFIDENCE)
    whole = calsweep.judge(PROBS, LABELS).facts["models"][0]
    [found] = facts(file)["models"]
    for name, each in found["metrics"].items():
        assert each["value"] == pytest.approx(whole["metrics"][name]["value"]), name
    for one, other in zip(found["per_class"], whole["per_class"], strict=True):
        assert one == pytest.approx({key: other[key] for key in one})
    assert "failure_auroc" in found["metrics"]
    text = run(file)
    assert text.startswith("read: probabilities of the predicted class, in predicted, from conf")
    page = tmp_path / "page.html"
    run(file, "--format", "html", "--output", str(page))
    assert "What scaling would achieve" not in page.read_text()
    assert page.read_text().count("as given") == 1
    both = facts(file, str(write(tmp_path / "whole", "npz")))["comparison"]
    assert [each["metric"] for each in both] == ["ece", "error"]
    assert [each["value"] for each in both] == pytest.approx([0, 0])


def test_what_was_read_is_the_first_line(tmp_path: Path) -> None:
    file = saved(tmp_path, **of_classes(*"0123"), id=LABELS, label=LABELS)
    line = (
        "probabilities of 4 classes from prob_0, prob_1, prob_2, prob_3; labels from label; "
        "600 samples; ignored: id"
    )
    assert run(file).splitlines()[0] == f"read: {line}"
    assert next(iter(facts(file).items())) == ("read", [line])
    page = tmp_path / "page.html"
    run(file, "--format", "html", "--output", str(page))
    assert f"read: {line}" in page.read_text()
    read = "read: probabilities of 4 classes; 600 samples"
    assert repr(calsweep.judge(PROBS, LABELS)).splitlines()[0] == read


def test_samples_with_an_ignored_label_are_left_out(tmp_path: Path) -> None:
    labels = np.where(np.arange(600) % 3 == 0, -100, LABELS)
    np.savez(tmp_path / "file.npz", logits=LOGITS, labels=labels)
    with pytest.raises(UserError, match=r"has labels -100; `ignore_label=-100`"):
        read_predictions([str(tmp_path / "file.npz")])
    [model] = read_predictions([str(tmp_path / "file.npz")], Asked(ignore_label="-100"))
    assert torch.equal(model.labels, torch.from_numpy(LABELS[labels >= 0]))
    assert "400 samples; 200 with label -100 left out" in str(model.read)


def test_masked_classes_and_one_hot_labels() -> None:
    masked = LOGITS.copy()
    masked[np.arange(600), (LABELS + 1) % 4] = -math.inf
    powers = np.exp(masked - masked.max(axis=1, keepdims=True))
    right = (powers / powers.sum(axis=1, keepdims=True))[np.arange(600), LABELS]
    found = calsweep.judge(masked, np.eye(4)[LABELS], logits=True)
    assert found.metrics["nll"]["value"] == pytest.approx(-np.log(right).mean())
    assert math.isfinite(found.facts["models"][0]["refinement"])
    hot = 40 * np.random.default_rng(0).normal(size=(600, 9))  # of three classes, T is above 60
    hot[:, 3:] = -math.inf
    alone = calsweep.judge(hot[:, :3], LABELS % 3, logits=True).facts["models"][0]
    for dtype in (np.float32, np.float64, np.longdouble):
        found = calsweep.judge(hot.astype(dtype), LABELS % 3, logits=True).facts["models"][0]
        assert found["temperature"] == pytest.approx(alone["temperature"], rel=1e-4)
        nll = [each["scaling"]["temperature"]["nll"]["value"] for each in (found, alone)]
        assert nll[0] == pytest.approx(nll[1], rel=1e-4), dtype
    with pytest.raises(UserError, match=r"row 3 \(from 0\) of the predictions has NaN or infinity"):
        calsweep.judge(
            np.where(np.arange(600)[:, None] == 3, -math.inf, LOGITS), LABELS, logits=True
        )


def test_soft_labels_are_expectations(tmp_path: Path) -> None:
    votes = np.random.default_rng(1).multinomial(20, softmax(LOGITS / 2))
    shares = votes / 20
    np.savez(tmp_path / "soft.npz", probs=PROBS)
    np.save(tmp_path / "votes.npy", votes)
    found = facts(str(tmp_path / "soft.npz"), "--labels", str(tmp_path / "votes.npy"))
    assert found["read"][0].endswith("from probs; labels from votes.npy; 600 samples; soft labels")
    metrics = found["models"][0]["metrics"]
    rows = np.repeat(np.arange(600 * 4), votes.reshape(-1))  # each vote is a sample
    probs, labels = torch.from_numpy(PROBS[rows // 4]), torch.from_numpy(rows % 4)
    expected = M.evaluate(probs.log(), labels, list(metrics))
    for name, value in expected.items():
        assert metrics[name]["value"] == pytest.approx(value, abs=1e-6), name
    assert metrics["nll"]["low"] < metrics["nll"]["value"] < metrics["nll"]["high"]
    judgement = calsweep.judge(PROBS, shares)
    assert judgement.metrics["nll"] == pytest.approx(metrics["nll"])
    assert "overconfident" in judgement.html()
    with pytest.raises(UserError, match=r"neither shares of the classes, .* nor numbers of votes"):
        calsweep.judge(PROBS, 0.4 * shares)
    with pytest.raises(UserError, match="are not compared, because labels are soft"):
        calsweep.judge({"a": PROBS, "b": PROBS}, shares)


def test_lists_as_text_are_read(tmp_path: Path) -> None:
    frame = pd.DataFrame({"probs": PROBS.tolist(), "label": LABELS})
    frame.to_csv(tmp_path / "file.csv", index=False)
    [model] = read_predictions([str(tmp_path / "file.csv")])
    torch.testing.assert_close(model.probs, torch.from_numpy(PROBS))
    pd.DataFrame({"probs": ["[.1 ... .9]"] * 9, "y": 0}).to_csv(tmp_path / "file.csv", index=False)
    with pytest.raises(UserError, match="column probs has lists as text that are not numbers"):
        read_predictions([str(tmp_path / "file.csv")])


def test_only_columns_that_are_used_are_read(tmp_path: Path) -> None:
    table = pa.table(of_classes(*"0123") | {"label": LABELS})
    doubled = [pa.array([None] * 600, pa.int64()), pa.array([{"a": 1}] * 600)]
    for array in doubled:
        table = table.append_column("note", array)
    pq.write_table(table, tmp_path / "file.parquet")
    [model] = read_predictions([str(tmp_path / "file.parquet")])
    assert model.read.ignored == ("note", "note")
    pq.write_table(table.append_column("prob_1", doubled[0]), tmp_path / "file.parquet")
    with pytest.raises(UserError, match="has 2 columns called 'prob_1'"):
        read_predictions([str(tmp_path / "file.parquet")])


def test_lists_of_different_lengths_are_refused(tmp_path: Path) -> None:
    ragged = [[0.5, 0.5], [0.5], [0.2, 0.3, 0.5]] * 4  # 24 values in 12 rows
    table = pa.table({"probs": ragged, "label": [0, 1, 0] * 4})
    pq.write_table(table, tmp_path / "file.parquet")
    with pytest.raises(UserError, match="column probs: has rows of different lengths: 1, 2, 3"):
        read_predictions([str(tmp_path / "file.parquet")])


def test_an_npz_file_may_name_its_model(tmp_path: Path) -> None:
    np.savez(tmp_path / "file.npz", probs=PROBS, labels=LABELS, model="network")
    [model] = read_predictions([str(tmp_path / "file.npz")])
    assert model.name == "network"


def test_models_of_different_classes_are_not_compared() -> None:
    frames = {
        "a": pd.DataFrame(PROBS, columns=[*"wxyz"]),
        "b": pd.DataFrame(PROBS, columns=[*"vxyz"]),
    }
    with pytest.raises(UserError, match="b has the classes v, x, y, z, a w, x, y, z"):
        calsweep.judge(frames, np.array([*"xyz"])[LABELS % 3])


def forest(count: int = 2000) -> tuple[Any, Any]:
    """Shares of ten trees for three classes, some of them 0 for the true class, and labels."""
    random = np.random.default_rng(5)
    truth = random.dirichlet([1, 1, 1], count)
    labels = (truth.cumsum(axis=1) < random.random((count, 1))).sum(axis=1)
    return random.multinomial(10, truth) / 10, labels


@pytest.mark.parametrize("kind", [np.float32, np.float64, "4 decimals"])
def test_probability_0_of_the_true_class_counts_as_half_a_step(kind: Any) -> None:
    probs, labels = forest()
    given = np.round(probs, 4) if kind == "4 decimals" else probs.astype(kind)
    judgement = calsweep.judge(given, labels)
    (model,) = judgement.facts["models"]
    own = probs[np.arange(len(labels)), labels]
    assert 0 < model["at_floor"] == (own == 0).sum()
    assert model["floor"] == pytest.approx(0.05, rel=1e-6)
    expected = -np.log(np.maximum(own, 0.05)).mean()
    assert judgement.metrics["nll"]["value"] == pytest.approx(expected, rel=1e-6)
    assert model["calibration"] + model["refinement"] == pytest.approx(expected, rel=1e-6)
    assert f"{model['at_floor']} samples have probability 0" in repr(judgement)
    compared = calsweep.judge({"a": given, "b": np.full((2000, 3), 1 / 3)}, labels).facts[
        "comparison"
    ]
    alike = -np.log(np.clip(own, 0.05, 0.95)).mean()  # the floor, and 1 less the floor
    assert compared[0]["value"] == pytest.approx(np.log(3) - alike, rel=1e-5)
    assert not compared[0]["comparable"]


def test_nll_of_confident_logits_has_the_same_floor_as_its_parts() -> None:
    logits = 200 * LOGITS.astype(np.float32)  # float32 probabilities underflow
    (model,) = calsweep.judge(logits, LABELS, logits=True).facts["models"]
    nll = model["metrics"]["nll"]["value"]
    expected = M.evaluate(torch.from_numpy(logits), torch.from_numpy(LABELS), ["nll"])["nll"]
    assert nll == pytest.approx(expected)
    assert model["calibration"] + model["refinement"] == pytest.approx(nll)
    assert model["at_floor"] == 0


def test_a_temperature_at_its_bound_is_said() -> None:
    logits = np.random.default_rng(0).standard_normal((400, 4)) * 1e4
    judgement = calsweep.judge(logits, np.arange(400) % 4, logits=True)
    assert judgement.facts["models"][0]["at_bound"]
    assert "at the end of its range" in repr(judgement)


def test_a_calibration_error_outside_its_interval_comes_with_the_estimate_inside() -> None:
    probs, labels = (softmax(LOGITS / 2), LABELS)
    seen = 0
    for rows in np.split(np.arange(600), 4):
        metrics = calsweep.judge(probs[rows], labels[rows]).metrics
        for name in M.CORRECTED:
            found = metrics[name]
            outside = not found["low"] <= found["value"] <= found["high"]
            assert ("corrected" in found) == outside
            if outside:
                seen += 1
                assert found["low"] <= found["corrected"] <= found["high"]
    assert seen


def test_a_classwise_error_above_its_interval_is_explained() -> None:
    """No corrected estimate is known for it."""
    draw = np.random.default_rng(6)
    right = draw.uniform(size=500)
    judgement = calsweep.judge(
        np.stack([right, 1 - right], 1), (draw.uniform(size=500) >= right).astype(int)
    )
    found = judgement.metrics["classwise_ece"]
    assert found["value"] > found["high"] and "corrected" not in found
    assert "a value may lie above its interval" in " ".join(repr(judgement).split())


def test_the_verdicts_of_a_pair_are_corrected_for_their_number() -> None:
    """Holm: the level is that of the number of metrics that were undecided before it."""
    both = {"ours": softmax(LOGITS / 2), "theirs": PROBS}
    found = {each["metric"]: each for each in calsweep.judge(both, LABELS).facts["comparison"]}
    assert list(found) == ["nll", "brier", "ece", "error"]
    assert found["error"]["value"] == 0  # a temperature
    assert {name: each["verdict"] for name, each in found.items()} == {
        "nll": "worse",  # theirs less ours
        "brier": "worse",
        "ece": "worse",
        "error": "not supported",
    }
    assert found["nll"]["level"] == pytest.approx(0.9875)
    assert found["error"]["level"] == 0.95
    probs = [torch.from_numpy(each) for each in (both["theirs"], both["ours"])]
    truth = torch.from_numpy(LABELS)
    expected = M.difference("brier", probs[:1], probs[1:], truth, confidence=0.9875)
    assert (found["brier"]["low"], found["brier"]["high"]) == (expected.low, expected.high)
    same = calsweep.judge({"a": PROBS, "b": PROBS.copy()}, LABELS).facts["comparison"]
    assert {each["level"] for each in same} == {0.9875}


def test_small_judgements_leave_the_number_of_threads_as_it_is() -> None:
    import torch

    before = torch.get_num_threads()
    probs = np.random.default_rng(0).dirichlet([1, 1, 1], 300)
    calsweep.judge(probs, np.arange(300) % 3)
    assert torch.get_num_threads() == before


@pytest.mark.parametrize("logits", [False, True])
@pytest.mark.parametrize(
    ("form", "message"),
    [("{:.2f}", "each row sums to 100"), ("{:.2f}%", "write percent as shares")],
)
def test_percent_in_columns_called_as_the_classes(
    form: str, message: str, logits: bool, tmp_path: Path
) -> None:
    columns = {f"class {k}": list(map(form.format, 100 * PROBS[:, k])) for k in range(4)}
    columns["label"] = [f"class {label}" for label in LABELS]
    csv.write_csv(pa.table(columns), tmp_path / "percent.csv")
    with pytest.raises(UserError, match=message):
        read_predictions([str(tmp_path / "percent.csv")], Asked(logits=logits))


def test_percent_are_no_logits() -> None:
    with pytest.raises(UserError, match="each row sums to 100: these are percent"):
        calsweep.judge(100 * PROBS, LABELS, logits=True)


def test_a_model_does_not_beat_itself_by_being_rounded() -> None:
    """With a floor for each file, rounding to .01 lowered the NLL by .06, supported."""
    random = np.random.default_rng(0)
    logits = 3 * random.standard_normal((1500, 2))
    probs = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    labels = (random.random(1500) < probs[:, 1]).astype(int)
    for decimals in (1, 2, 3):
        found = calsweep.judge({"full": probs, "rounded": probs.round(decimals)}, labels)
        nll = found.facts["comparison"][0]
        assert (nll["metric"], nll["ours"]) == ("nll", "rounded")
        assert nll["verdict"] != "supported" and abs(nll["value"]) < 0.01
    one_hot = np.eye(2)[probs.argmax(axis=1)]
    nll, brier, *_ = calsweep.judge({"a": probs, "b": one_hot}, labels).facts["comparison"]
    assert not nll["comparable"] and nll["verdict"] == "not supported"
    assert brier["comparable"] and brier["verdict"] == "worse"


def test_groups_of_calibrated_predictions_have_no_words() -> None:
    """Wilson's interval called one of 40 groups overconfident in 62 % of such files."""
    random = np.random.default_rng(0)
    probs = np.tile([0.01, 0.99], (1000, 1))
    groups = np.repeat(np.arange(40), 25)
    for _ in range(5):
        labels = (random.random(1000) < 0.99).astype(int)
        model = calsweep.judge(probs, labels, groups=groups).facts["models"][0]
        assert {each["word"] for each in model["per_group"]} == {"neither"}
        assert {each["word"] for each in model["per_class"] if "word" in each} == {"neither"}
