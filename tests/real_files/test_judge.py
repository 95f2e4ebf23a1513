"""Files of other programs, as their users have them, are read right by ``calsweep judge``.

Each row says how a file in ``judge/`` was written. Error, NLL and ECE (15 bins) were computed with
NumPy from the arrays before they were written.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from sweeps.errors import UserError
from sweeps.judging.inputs import Predicted
from sweeps.judging.judgement import judge
from sweeps.judging.reading import read_predictions
from sweeps.judging.tables import Asked
from trainables import metrics as M

FILES = Path(__file__).parent / "judge"

TWO = (0.3333, 0.6246, 0.1409)
THREE = (0.3000, 0.7692, 0.1263)
MARGINS = (0.2500, 0.5178, 0.1582)
FOREST = (0.5167, 0.9707, 0.0720)

READ = [
    # pandas 3.1.1: to_csv with its index
    ("pandas_index.csv", TWO, "2 classes from prob_0, prob_1; labels from label", '""'),
    # pandas 3.1.1: scikit-learn's names for one score per sample
    ("pandas_y_prob.csv", TWO, "class 1 of 2 from y_prob; labels from y_true", ""),
    # pandas 3.1.1: boolean labels, columns not in the order of False, True
    ("pandas_booleans.csv", TWO, "2 classes from p(True), p(False); labels from y_true", ""),
    # pandas 3.1.1: to_parquet of shuffled rows, so with __index_level_0__; lists of probabilities
    ("pandas_shuffled.parquet", THREE, "3 classes from probs; labels", "__index_level_0__"),
    # R 4.2.2: write.csv
    ("r_write_csv.csv", TWO, "2 classes from prob_0, prob_1; labels from label", '""'),
    # R 4.2.2: write.csv2, so with semicolons and decimal commas; logical labels
    ("r_write_csv2.csv", TWO, "2 classes from p(FALSE), p(TRUE); labels from label", ""),
    # R 4.2.2, layout of caret 6: trainControl(savePredictions = TRUE, classProbs = TRUE)
    ("r_caret.csv", THREE, "from cat, dog, emu; labels from obs", '"", pred, rowIndex, Resample'),
    # R 4.2.2, layout of tidymodels 1: augment()
    (
        "r_tidymodels.csv",
        THREE,
        ".pred_cat, .pred_dog, .pred_emu; labels from truth",
        ".pred_class",
    ),
    # R 4.2.2, layout of mlr3 0.20: as.data.table(prediction)
    ("r_mlr3.csv", THREE, "prob.cat, prob.dog, prob.emu; labels from truth", "row_ids, response"),
    # Polars 2.1.0: labels are a Categorical; a struct in another column
    ("polars.parquet", THREE, "p(emu), p(cat), p(dog); labels from label", "id, about"),
    # Polars 2.1.0: logits in an Array column, labels Int8
    ("polars_array.parquet", THREE, "logits of 3 classes from logits; labels from label", ""),
    # DuckDB 2.0.1: DECIMAL probabilities, ENUM labels; a HUGEINT and a MAP in other columns
    ("duckdb.parquet", THREE, "prob_cat, prob_dog, prob_emu; labels from label", "id, about"),
    # datasets 5.2.0: to_parquet, labels are a ClassLabel
    ("datasets.parquet", THREE, "logits of 3 classes from logits; labels from label", ""),
    # transformers 5: predictions and label_ids of Trainer.predict, np.savez of NumPy 2.4.6
    ("transformers_trainer.npz", THREE, "from predictions; labels from label_ids", ""),
    # timm 1.0.31: inference.py --topk 0 --results-separate-col, joined with the target
    ("timm_all.csv", THREE, "3 classes from prob_0, prob_1, prob_2; labels", "filename"),
    # AutoGluon 1.6: predict_proba, whose columns are the classes, joined with the label
    ("autogluon.csv", THREE, "3 classes from cat, dog, emu; labels from label", ""),
    ("autogluon_numbers.csv", TWO, "2 classes from 0, 1; labels from label", '""'),
    # scikit-learn 1.9.1: a random forest, classes_ and a name of the model in one npz
    ("sklearn_forest.npz", FOREST, "3 classes from probs; labels from y_true", ""),
    # calsweep predict, joined with labels: the classes are the numbers 0, 2 and 5
    ("calsweep_predict.csv", THREE, "p(0), p(2), p(5); labels from label", "sample, prediction"),
]


def read(file: str, **asked: Any) -> Predicted:
    [model] = read_predictions([str(FILES / file)], Asked(**asked))
    return model


def measured(model: Predicted) -> tuple[float, ...]:
    found = M.intervals(model.probs, model.labels, ("error", "nll", "ece"))
    return tuple(value for value, _, _ in found.values())


@pytest.mark.parametrize(("file", "right", "columns", "ignored"), READ)
def test_files_of_other_programs(
    file: str, right: tuple[float, ...], columns: str, ignored: str
) -> None:
    model = read(file)
    assert measured(model) == pytest.approx(right, abs=6e-5)
    assert columns in str(model.read)
    assert ", ".join(model.read.ignored) == ignored


# XGBoost 3.2.0: predict(output_margin=True) is one logit per sample; labels by np.save and to_csv
@pytest.mark.parametrize("labels", ["xgboost_labels.npy", "xgboost_labels.csv"])
def test_margins_are_logits_of_class_1(labels: str) -> None:
    model = read("xgboost_margins.npy", labels=str(FILES / labels))
    assert measured(model) == pytest.approx(MARGINS, abs=6e-5)
    assert str(model.read).startswith("logits of class 1 of 2 from the array; labels from")


TOP_LABEL = [
    # pandas 3.1.1: true label, predicted label and confidence, as many result files have them
    ("top_label.csv", THREE, 3),
    # transformers 5: text-classification pipeline, joined with the truth; `label` is the prediction
    ("transformers_pipeline.csv", THREE, 3),
    # PyCaret 3: predict_model, features beside
    ("pycaret.csv", TWO, 2),
]


@pytest.mark.parametrize(("file", "right", "classes"), TOP_LABEL)
def test_files_with_the_confidence_of_the_prediction(
    file: str, right: tuple[float, ...], classes: int
) -> None:
    model = read(file)
    assert model.top_label_only
    [found] = judge([model]).models
    assert found.classes == classes
    assert "nll" not in found.metrics
    values = [found.metrics[name].value for name in ("error", "ece")]
    assert values == pytest.approx([right[0], right[2]], abs=6e-5)


OF_THREE, OF_TWO = (0.3125, 0.1374), (0.1875, 0.1048)
# Layouts of which a name alone says something wrong, of the same predictions; error and ECE.
LAYOUTS: list[tuple[str, tuple[float, float], dict[str, Any]]] = [
    ("pred_prob.csv", OF_TWO, {}),
    ("row_numbers.csv", OF_TWO, {}),
    ("margin.csv", OF_TWO, {}),
    ("boxes.csv", OF_THREE, {}),
    ("long.csv", OF_THREE, {}),
    ("ranks.csv", OF_THREE, {}),
    ("std.csv", OF_THREE, {}),
    ("feature_model.csv", OF_THREE, {}),
    ("seeds.csv", OF_THREE, {}),
    ("prefix.csv", OF_THREE, {}),
    ("prefix.csv", OF_THREE, {"scores": tuple(f"resnet_prob_{place}" for place in range(3))}),
    ("no_header.csv", OF_THREE, {"labels": str(FILES / "layout_no_header_labels.csv")}),
    ("ids.csv", OF_THREE, {"labels": str(FILES / "layout_ids_labels.csv")}),
    ("several_labels.npz", (0.25, 0.0423), {}),
    ("abstain.csv", (0.303, 0.1245), {}),
]


@pytest.mark.parametrize(("name", "right", "asked"), LAYOUTS)
def test_layouts_whose_names_mislead(
    name: str, right: tuple[float, float], asked: dict[str, Any]
) -> None:
    error, _, ece = measured(read(f"layout_{name}", **asked))
    assert (error, ece) == pytest.approx(right, abs=6e-5)


REFUSED = [
    # timm 1.0.31: inference.py --topk 2 --results-separate-col: prob_0 is the largest probability
    ("timm_topk.csv", "prob_0, prob_1 are the largest scores of each sample"),
    # DuckDB 2.0.1: lists, and text labels
    ("duckdb_lists.parquet", "label 'cat' is not a class; the classes are 0, 1, 2"),
    # Polars 2.1.0: a column of Int128, which pyarrow cannot read
    (
        "polars_int128.parquet",
        "more than 64 bits not implemented; a column of Int128",
    ),
]


@pytest.mark.parametrize(("file", "message"), REFUSED)
def test_files_that_are_refused(file: str, message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        read(file)
    assert "\n" not in str(caught.value)


def test_two_orders_of_columns_are_aligned_by_name() -> None:
    files = [str(FILES / each) for each in ("autogluon.csv", "polars.parquet")]
    first, second = read_predictions(files)
    assert first.classes == second.classes == ("cat", "dog", "emu")
    torch.testing.assert_close(first.probs, second.probs)
    assert torch.equal(first.labels, second.labels)


def harness(name: str) -> list[dict[str, Any]]:
    text = (FILES / name).read_text()
    return [json.loads(line) for line in text.splitlines()]


def shares(rows: list[dict[str, Any]]) -> list[np.ndarray[Any, Any]]:
    """The probabilities of the options of each question."""
    powers = [np.exp([float(each[0]) for each in row["filtered_resps"]]) for row in rows]
    return [each / each.sum() for each in powers]


# lm_eval 0.4.13: --model dummy --log_samples. Of two options, acc says which one is right.
@pytest.mark.parametrize("name", ["harness_four.jsonl", "harness_wino.jsonl"])
def test_logs_of_questions_with_the_same_options(name: str) -> None:
    model, rows = read(name), harness(name)
    assert not model.top_label_only
    gold = [
        int(row["target"])
        if "four" in name
        else int(each.argmax() if row["acc"] else each.argmin())
        for row, each in zip(rows, shares(rows), strict=True)
    ]
    nll = -np.mean([np.log(each[k]) for each, k in zip(shares(rows), gold, strict=True)])
    error, found, _ = measured(model)
    assert (error, found) == pytest.approx((1 - np.mean([row["acc"] for row in rows]), nll))
    if "four" in name:
        assert model.classes == ("A", "B", "C", "D")


def test_logs_of_questions_with_other_options_are_judged_by_the_chosen_one() -> None:
    model, rows = read("harness_ragged.jsonl"), harness("harness_ragged.jsonl")
    assert model.top_label_only
    assert "probabilities of the chosen one of 2 to 5 options; labels from the log" in str(
        model.read
    )
    assert float((model.probs.argmax(1) != model.labels).double().mean()) == pytest.approx(
        1 - np.mean([row["acc"] for row in rows])
    )
    confidence = [each.max() for each in shares(rows)]
    assert model.probs.max(dim=1).values.tolist() == pytest.approx(confidence)


def test_logs_are_matched_by_question(tmp_path: Path) -> None:
    lines = (FILES / "harness_ragged.jsonl").read_text().splitlines()
    (tmp_path / "other.jsonl").write_text("\n".join(lines[::-1]))
    first, second = read_predictions(
        [str(FILES / "harness_ragged.jsonl"), str(tmp_path / "other.jsonl")]
    )
    assert torch.equal(first.probs, second.probs)


# inspect_ai 0.3.285: mockllm with log-probabilities, log formats json (its events are left out)
# and eval; accuracy is Inspect's
def test_logs_of_inspect() -> None:
    content = json.loads((FILES / "inspect_four.json").read_text())
    [score] = content["results"]["scores"]
    model = read("inspect_four.json")
    assert model.classes == ("A", "B", "C", "D")
    assert measured(model)[0] == pytest.approx(1 - score["metrics"]["accuracy"]["value"])
    losses = []
    for sample in content["samples"]:
        tokens = sample["output"]["choices"][0]["logprobs"]["content"][-1]["top_logprobs"]
        known = {each["token"]: np.exp(each["logprob"]) for each in tokens}
        total = sum(known[letter] for letter in "ABCD")
        losses.append(-np.log(known[sample["target"]] / total))
    assert measured(model)[1] == pytest.approx(np.mean(losses))
    ragged = read("inspect_ragged.eval")
    assert ragged.top_label_only
    assert measured(ragged)[0] == pytest.approx(1 - 0.125)


def test_logs_without_log_probabilities_are_refused() -> None:
    with pytest.raises(UserError, match="has no log-probabilities of options; needed: tasks of"):
        read("harness_gen.jsonl")
