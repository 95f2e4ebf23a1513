"""Layouts of prediction files in public repositories are read right, or refused with a reason.

The columns are theirs; the numbers are drawn here.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from sweeps.errors import UserError
from sweeps.judging.inputs import Predicted
from sweeps.judging.reading import read_predictions
from sweeps.judging.tables import Asked
from trainables import metrics as M

RNG = np.random.default_rng(0)
LOGITS = 2 * RNG.normal(size=(300, 4))
PROBS = np.exp(LOGITS) / np.exp(LOGITS).sum(axis=1, keepdims=True)
LABELS = np.array([RNG.choice(4, p=each) for each in PROBS])
GUESSES, CONFIDENCE = PROBS.argmax(axis=1), PROBS.max(axis=1)
NAMES = np.array(["clean", "ds1", "ds2", "ds3"])
TYPES = np.array(["CD4 T", "B", "CD14+ Mono", "NK"])
TYPES_IN_R = [f"prediction.score.{each}" for each in ("CD4.T", "B", "CD14..Mono", "NK")]
ROWS = range(300)

RIVAL = PROBS[:, 1]
RISK = 1 / (1 + np.exp(-LOGITS[:, 0]))
ILL = (RNG.random(300) < RISK).astype(int)
ALARM = (RISK > 0.5).astype(int)


def of_classes(pattern: str, values: Any = PROBS, first: int = 0) -> dict[str, Any]:
    return {pattern.format(first + k): values[:, k] for k in range(4)}


def read(folder: Path, columns: dict[str, Any], **asked: Any) -> Predicted:
    pd.DataFrame(columns).to_csv(folder / "file.csv", index=False)
    [model] = read_predictions([str(folder / "file.csv")], Asked(**asked))
    return model


ALL_CLASSES: list[dict[str, Any]] = [
    {"uid": ROWS, "y_true": LABELS, "domain": "id", "y_pred": GUESSES, **of_classes("p_{}")},
    {"true_label": LABELS, "predicted_label": GUESSES, **of_classes("prob_class_{}")},
    {"true_label": LABELS + 1, "predicted_label": 1, **of_classes("prob_class{}", first=1)},
    {"speaker": "a", "y_true": LABELS, "y_pred": GUESSES, **of_classes("logit_{}", LOGITS)},
    {"label": LABELS, "pred_label": 0} | of_classes("logit_{}", LOGITS) | of_classes("prob_{}"),
    {"G1": 1.5, "True_Label": LABELS, "Confidence": CONFIDENCE, **of_classes("Prob_Class_{}")},
    {"true_labels": LABELS, "pred_labels": GUESSES, "probabilities": PROBS.tolist()},
    # knees; a class is called KL0
    {"image_path": ROWS, "true_label": LABELS, "pred_label": GUESSES, **of_classes("prob_KL{}")},
    # ensembles, with the mean and the deviation of their members
    {"y_true": LABELS, **of_classes("mean_prob_{}"), **of_classes("std_prob_{}", PROBS / 9)},
    {"y_true": LABELS, **of_classes("prob_{}_mean"), **of_classes("prob_{}_std", PROBS / 9)},
    # Orange 3, test and score: the model and the class in brackets
    {"truth": LABELS, "Random Forest": GUESSES, **of_classes("Random Forest ({})"), "fold": 1},
    # Seurat, TransferData: names as R makes them, and the largest score
    {"orig.ident": "pbmc", "predicted.id": NAMES[GUESSES], "true_label": TYPES[LABELS]}
    | dict(zip(TYPES_IN_R, PROBS.T, strict=True))
    | {"prediction.score.max": CONFIDENCE},
    # data frames of R: X and the number
    {"label": LABELS, **of_classes("prob.X{}")},
    # H2O
    {"predict": GUESSES, **of_classes("{}"), "actual": LABELS},
    # SageMaker: lists as text, with the names of their classes
    {"label": LABELS, "predicted_label": GUESSES, "probabilities": PROBS.tolist(), "labels": "[0]"},
]


@pytest.mark.parametrize("columns", ALL_CLASSES, ids=", ".join)
def test_scores_of_all_classes(columns: dict[str, Any], tmp_path: Path) -> None:
    model = read(tmp_path, columns)
    torch.testing.assert_close(model.probs, torch.from_numpy(PROBS))
    assert torch.equal(model.labels, torch.from_numpy(LABELS))


def test_answers_of_language_models(tmp_path: Path) -> None:
    letters = np.array([*"ABCD"])
    # hendrycks/test, results_{model}.csv: questions have numbers as names
    columns = {"0": "Why?", "5": letters[LABELS], "ada_correct": LABELS == GUESSES}
    columns |= dict(zip([f"ada_choice{each}_probs" for each in letters], PROBS.T, strict=True))
    found = [read(tmp_path, columns, label="5")]
    # lighteval, details: lists of one answer
    lists = {"gold_index": [[each] for each in LABELS.tolist()], "predictions": LOGITS.tolist()}
    pd.DataFrame(lists).to_parquet(tmp_path / "details.parquet")
    found += read_predictions([str(tmp_path / "details.parquet")])
    # MMLU in the long format: a row for each option, and whether it is right
    question, option = np.divmod(np.arange(1200), 4)
    long = {"question_id": question, "class": letters[option], "prob": PROBS.ravel()}
    found.append(read(tmp_path, long | {"label": (LABELS[question] == option).astype(int)}))
    for model in found:
        torch.testing.assert_close(model.probs, torch.from_numpy(PROBS))
        assert torch.equal(model.labels, torch.from_numpy(LABELS))


TOP_LABEL: list[dict[str, Any]] = [
    {"filename": "a", "true_label": LABELS, "predicted_label": GUESSES, "confidence": CONFIDENCE},
    {"path": "a", "label": LABELS, "prediction": GUESSES, "probability": CONFIDENCE},
    {"true_label": LABELS, "pred_label": GUESSES, "confidence": CONFIDENCE, "margin": 0.1},
    {"path": "a", "true_class": NAMES[LABELS], "predicted_class": NAMES[GUESSES]}
    | {"confidence": CONFIDENCE, "correct": LABELS == GUESSES},
    {
        "Image-Name": ROWS,
        "Predicted Class": NAMES[GUESSES],
        "Confidence Score": CONFIDENCE,
        "True Class": NAMES[LABELS],
    },
    # Roboflow, _annotations.csv, joined with the detections
    {"filename": [f"{row // 3}.rf.jpg" for row in ROWS], "width": 640, "class": NAMES[LABELS]}
    | {"xmin": RISK, "ymin": ROWS, "predicted_class": NAMES[GUESSES], "confidence": CONFIDENCE},
    # COCO results, as JSON lines joined with the truth
    {"image_id": LABELS + 7, "category_id": GUESSES + 1, "bbox": "[1.0, 2.0, 3.0, 4.0]"}
    | {"score": CONFIDENCE, "gt": LABELS + 1},
    # BirdNET, joined with annotations
    {"Start (s)": ROWS, "Scientific name": NAMES[GUESSES], "Common name": NAMES[GUESSES]}
    | {"Confidence": CONFIDENCE, "File": "a.wav", "label": NAMES[LABELS]},
    # QIIME 2, classify-sklearn
    {"Feature ID": ROWS, "Taxon": NAMES[GUESSES], "Confidence": CONFIDENCE, "label": NAMES[LABELS]},
    # CellTypist
    {"predicted_labels": NAMES[GUESSES], "over_clustering": LABELS + 7, "conf_score": CONFIDENCE}
    | {"majority_voting": NAMES[LABELS], "true_label": NAMES[LABELS]},
    # SpeciesNet
    {"filepath": ROWS, "prediction": NAMES[GUESSES], "prediction_score": CONFIDENCE}
    | {"prediction_source": "classifier", "true_label": NAMES[LABELS]},
    # tracking: boxes of tracks, by frame
    {"frame": LABELS + 1, "track_id": LABELS, "x": RISK * 900, "y": GUESSES, "conf": CONFIDENCE}
    | {"class_id": GUESSES, "gt": LABELS},
    # Weka
    {"inst#": np.arange(300) + 1, "actual": [f"{k + 1}:{NAMES[k]}" for k in LABELS], "error": "+"}
    | {"predicted": [f"{k + 1}:{NAMES[k]}" for k in GUESSES], "prediction": CONFIDENCE},
]


@pytest.mark.parametrize("columns", TOP_LABEL, ids=", ".join)
def test_the_prediction_and_its_confidence(columns: dict[str, Any], tmp_path: Path) -> None:
    model = read(tmp_path, columns)
    assert model.top_label_only
    right = M.expected_calibration_error(torch.from_numpy(PROBS), torch.from_numpy(LABELS))
    found = M.expected_calibration_error(model.probs, model.labels)
    torch.testing.assert_close(found, right)


ONE_SCORE: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"y_true": ILL, "y_pred": ALARM, "y_probability": RISK, "site": "a"}, {}),
    ({"true_label": np.array(["good", "bad"])[ILL], "prob_bad": RISK, "correct": 1}, {}),
    ({"Prediction": ALARM, "Probability_0": 1 - RISK, "Probability_1": RISK, "label": ILL}, {}),
    ({"label": ILL == 1, "prediction": ALARM, "probability": RISK}, {}),
    (
        {"final_result": "Pass", "target": ILL, "risk_probability": RISK},
        {"scores": ("risk_probability",)},
    ),
    (
        {
            "seats": 7,
            "true_label": np.array(["family", "sport"])[ILL],
            "predicted_label": "family car",
        }
        | {"score_family": 1 - RISK, "score_sport": RISK, "predicted_class": "family"},
        {},
    ),
    (
        {"SMILES": "C", "y_pred": ALARM, "y_prob": RISK, "status": "BBB+", "BBB_labels": ILL},
        {"label": "BBB_labels"},
    ),
    (
        {"class": np.array(["no", "yes"])[ILL], "y_true": ILL, "ResNet50_prob": RISK}
        | {"ResNet50_pred": ALARM, "ViT-B/16_prob": RIVAL, "ViT-B/16_pred": 0},
        {"scores": ("ResNet50_prob",)},
    ),
    (
        {"row_index": ROWS, "actual": ILL, "mlp_probability": RISK, "logistic_probability": RIVAL},
        {"scores": ("mlp_probability",)},
    ),
    ({"ID": ROWS, "fold": 1, "y_true": ILL, "y_score": RISK, "variant": "raw"}, {}),
    ({"age": 65.0, "ill": ILL, "oof_pred": RISK}, {"label": "ill", "scores": ("oof_pred",)}),
]


@pytest.mark.parametrize(("columns", "asked"), ONE_SCORE)
def test_one_score(columns: dict[str, Any], asked: dict[str, Any], tmp_path: Path) -> None:
    model = read(tmp_path, columns, **asked)
    torch.testing.assert_close(model.probs[:, 1], torch.from_numpy(RISK))
    assert torch.equal(model.labels, torch.from_numpy(ILL))


IMAGES = [f"img_{row}.jpg" for row in ROWS]
SUBMITTED: list[tuple[dict[str, Any], dict[str, Any]]] = [
    # Kaggle: Otto; State Farm; Plant Pathology, whose truth has a column of 0 and 1 for each class
    ({"id": ROWS, **of_classes("Class_{}", first=1)}, {"target": LABELS + 1}),
    ({"img": IMAGES, **of_classes("c{}")}, {"classname": [f"c{k}" for k in LABELS]}),
    (
        {"image_id": IMAGES, **dict(zip(NAMES, PROBS.T, strict=True))},
        {name: (k == LABELS).astype(int) for k, name in enumerate(NAMES)},
    ),
    # SIIM melanoma: the probability and the label have the same name
    ({"image_name": IMAGES, "target": RISK}, {"target": ILL}),
]


@pytest.mark.parametrize(("columns", "truth"), SUBMITTED)
def test_submissions_and_their_solution(
    columns: dict[str, Any], truth: dict[str, Any], tmp_path: Path
) -> None:
    key = next(iter(columns))
    solution = pd.DataFrame({key: columns[key], **truth}).sample(frac=1, random_state=1)
    solution.to_csv(tmp_path / "solution.csv", index=False)
    model = read(tmp_path, columns, labels=str(tmp_path / "solution.csv"))
    probs, labels = (PROBS, LABELS) if len(columns) > 2 else (np.stack([1 - RISK, RISK], 1), ILL)
    torch.testing.assert_close(model.probs, torch.from_numpy(probs))
    assert torch.equal(model.labels, torch.from_numpy(labels))


def test_lists_of_other_types_and_shapes(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.ipc
    import pyarrow.parquet as pq

    tensor = pa.FixedShapeTensorArray.from_numpy_ndarray(np.ascontiguousarray(PROBS))
    for values in (tensor, [[row, row] for row in PROBS.tolist()]):
        pq.write_table(pa.table({"probs": values, "label": LABELS}), tmp_path / "file.parquet")
        if values is tensor:
            [model] = read_predictions([str(tmp_path / "file.parquet")])
            torch.testing.assert_close(model.probs, torch.from_numpy(PROBS))
        else:
            with pytest.raises(
                UserError, match=r"probs has shape \(300, 2, 4\); allowed: \(N, K\)"
            ):
                read_predictions([str(tmp_path / "file.parquet")])
    for view in (pa.list_view(pa.float64()), pa.large_list_view(pa.float64())):
        table = pa.table({"probs": pa.array(PROBS.tolist(), view), "label": LABELS})
        with pa.ipc.new_file(str(tmp_path / "file.arrow"), table.schema) as file:
            file.write_table(table)
        [model] = read_predictions([str(tmp_path / "file.arrow")])
        torch.testing.assert_close(model.probs, torch.from_numpy(PROBS))
    scalars = [str([np.float64(each) for each in row]) for row in PROBS]
    model = read(tmp_path, {"label": LABELS, "probs": scalars})  # np.float64(…), as NumPy 2 writes
    torch.testing.assert_close(model.probs, torch.from_numpy(PROBS))


REFUSED: list[tuple[dict[str, Any], str]] = [
    (
        {"Label": np.array(["GON-", "GON+"])[ILL], "prediction": ALARM, "probability": RISK},
        r"prediction are 0, 1, labels are GON\+, GON-: no class is in both.*`label=NAME`",
    ),
    (
        {"true_label": LABELS, **dict(zip("prob_" + NAMES.astype(object), PROBS.T, strict=True))},
        "label '0' is not a class; the classes are clean, .*; write numbers, or names, in both",
    ),
    ({"ID": ROWS, "Actual_Churn": ILL, "OOF_p_churn": RISK}, "holds no labels.*`label=NAME`"),
    ({"gold_label": LABELS, "pred_label": GUESSES}, "holds no probabilities or logits"),
    (
        {"actual": ILL, "mlp_probability": RISK, "logistic_probability": RIVAL},
        "'0' is not a class; the classes are mlp, logistic.*scores of one model: `scores=NAME`",
    ),
    (
        {"True_Label": ILL, "Pred": ALARM, "Confidence": [f"{100 * each:.2f}%" for each in RISK]},
        r"Confidence holds '\d+\.\d+%'; scores are numbers; write percent as shares, 0.5 for 50%",
    ),
    # what language models say about themselves
    (
        {"gold": NAMES[LABELS], "predicted_answer": NAMES[GUESSES], "confidence": 100 * CONFIDENCE},
        r"confidence runs from \S+ to \S+; probabilities lie between 0 and 1; write percent as",
    ),
    (
        {"Actual": ROWS, "Predicted": 500 * RISK, "Residuals": 0.5},
        "holds no probabilities or logits",
    ),
    (
        {"correct_document_label": ILL, "predicted_document_label": ALARM, "doc1_score": RISK},
        "holds no labels.*`label=NAME`",
    ),
    ({"Unique ID": ROWS, "Label 1": ILL, "Label 2": ALARM}, "holds no labels.*`label=NAME`"),
    (
        {"label": LABELS, **of_classes("{}", LOGITS)},
        "Some of 0, 1, 2, 3 are called as the classes: `logits=true`, if they are logits",
    ),
]


@pytest.mark.parametrize(("columns", "message"), REFUSED)
def test_refused_with_a_reason(columns: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=message):
        read(tmp_path, columns)


def test_scores_that_a_csv_file_gives_as_text(tmp_path: Path) -> None:
    columns = {"Actual": ILL, "Predicted": RISK, "Residuals": 0.5}
    model = read(tmp_path, columns, scores=("Predicted",))
    torch.testing.assert_close(model.probs[:, 1], torch.from_numpy(RISK))


def test_lists_as_text_may_have_any_name(tmp_path: Path) -> None:
    columns = {"true_labels": LABELS, "softmax_values": PROBS.tolist()}
    model = read(tmp_path, columns, scores=("softmax_values",))
    torch.testing.assert_close(model.probs, torch.from_numpy(PROBS))


def test_files_of_savetxt_have_no_header(tmp_path: Path) -> None:
    scores, labels = str(tmp_path / "probs.csv"), str(tmp_path / "labels.csv")
    np.savetxt(scores, PROBS, delimiter=",")
    np.savetxt(labels, LABELS)
    [model] = read_predictions([scores], Asked(labels=labels))
    torch.testing.assert_close(model.probs, torch.from_numpy(PROBS))
    assert torch.equal(model.labels, torch.from_numpy(LABELS))
    np.savetxt(labels, LABELS, fmt="%d")  # the first line could be a name
    with pytest.raises(UserError, match=r"\(299,\); \(300,\).*is the first line of a file no head"):
        read_predictions([scores], Asked(labels=labels))


def test_a_network_of_one_output(tmp_path: Path) -> None:
    np.savez(tmp_path / "keras.npz", y_true=ILL[:, None], y_pred=RISK[:, None])
    [model] = read_predictions([str(tmp_path / "keras.npz")])
    torch.testing.assert_close(model.probs[:, 1], torch.from_numpy(RISK))
    assert torch.equal(model.labels, torch.from_numpy(ILL))


def test_two_decimals_explain_sums_that_are_not_one(tmp_path: Path) -> None:
    rounded = PROBS.round(2)
    assert abs(rounded.sum(axis=1) - 1).max() > 0.01
    model = read(tmp_path, {"label": LABELS, **of_classes("prob_{}", rounded)})
    assert float((model.probs - torch.from_numpy(PROBS)).abs().max()) < 0.02
    with pytest.raises(UserError, match=r"sums to 0\.97"):
        read(tmp_path, {"label": LABELS, **of_classes("prob_{}", PROBS * 0.97)})
