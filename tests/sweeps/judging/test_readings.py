"""A column's name proposes a reading, and its values confirm it; right values are NumPy's."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import calsweep
from sweeps.errors import UserError
from sweeps.judging.inputs import Predicted
from sweeps.judging.judgement import judge
from sweeps.judging.reading import read_predictions
from sweeps.judging.tables import Asked

RNG = np.random.default_rng(69)
COUNT = 600
LOGITS = 1.5 * RNG.normal(size=(COUNT, 3))
PROBS = np.exp(LOGITS) / np.exp(LOGITS).sum(axis=1, keepdims=True)
LABELS = np.array([RNG.choice(3, p=each) for each in PROBS**0.7 / (PROBS**0.7).sum(1)[:, None]])
GUESSES, CONFIDENCE = PROBS.argmax(axis=1), PROBS.max(axis=1)
NAMES = np.array(["cat", "dog", "emu"])
ROWS = np.arange(COUNT)

RISK = 1 / (1 + np.exp(-2 * LOGITS[:, 0]))
ILL = (RNG.random(COUNT) < 1 / (1 + np.exp(-LOGITS[:, 0]))).astype(int)
ALARM = (RISK > 0.5).astype(int)
WORDS = np.array(["well", "ill"])


def ece(confidence: Any, right: Any) -> float:
    """15 bins of equal width, (lower, upper]."""
    place = np.clip(np.ceil(confidence * 15), 1, 15)
    gaps = [(confidence - right)[place == each].sum() for each in range(1, 16)]
    return float(np.abs(gaps).sum() / len(right))


def error(probs: Any, labels: Any) -> float:
    return float((probs.argmax(axis=1) != labels).mean())


def read(folder: Path, columns: Any, **asked: Any) -> Predicted:
    pd.DataFrame(columns).to_csv(folder / "file.csv", index=False)
    [model] = read_predictions([str(folder / "file.csv")], Asked(**asked))
    return model


def measured(model: Predicted) -> dict[str, float]:
    [found] = judge([model]).models
    return {name: each.value for name, each in found.metrics.items()}


OF_CLASS_1 = [
    {"y_true": ILL, "y_pred": ALARM, "pred_prob": RISK},
    {"y_true": ILL, "y_pred": ALARM, "confidence": RISK},
    {"y_true": ILL, "y_pred": ALARM, "prediction_score": RISK},
    {"y_true": WORDS[ILL], "y_pred": WORDS[ALARM], "conf": RISK},
    {"y_true": WORDS[ILL], "y_pred": WORDS[ALARM], "prob": RISK},
]


@pytest.mark.parametrize("columns", OF_CLASS_1, ids=", ".join)
def test_a_confidence_below_one_half_is_the_probability_of_a_class(
    columns: Any, tmp_path: Path
) -> None:
    model = read(tmp_path, {"id": ROWS, **columns})
    assert not model.top_label_only
    right = ece(np.maximum(RISK, 1 - RISK), ALARM == ILL)
    assert measured(model)["ece"] == pytest.approx(right)


def test_predictions_say_of_which_class_a_score_is(tmp_path: Path) -> None:
    model = read(tmp_path, {"y_true": ILL, "y_pred": ALARM, "prob": 1 - RISK})
    torch.testing.assert_close(model.probs[:, 1], torch.from_numpy(RISK))


@pytest.mark.parametrize("beyond", [0, 1])
def test_one_predicted_class_is_no_contradiction(beyond: int, tmp_path: Path) -> None:
    risk = RISK / 2 + 0.5 if beyond else RISK / 2
    for words in (np.arange(2), WORDS):
        columns = {"y_true": words[ILL], "y_pred": words[[beyond]].repeat(COUNT), "prob": risk}
        model = read(tmp_path, columns)
        assert float((model.probs.argmax(1) != model.labels).double().mean()) == pytest.approx(
            (beyond != ILL).mean()
        )
        confidence = np.maximum(risk, 1 - risk)
        torch.testing.assert_close(model.probs.max(1).values, torch.from_numpy(confidence))


@pytest.mark.parametrize(
    "columns",
    [
        {"image_id": ROWS // 3, "category": NAMES[GUESSES], "score": CONFIDENCE, "x": 3.5}
        | {"y": RNG.integers(400, size=COUNT), "w": 2, "h": 5, "gt_label": NAMES[LABELS]},
        {"obs": ROWS, "truth": NAMES[LABELS], "category": NAMES[GUESSES], "prob": CONFIDENCE},
        {"x": 1, "y": RNG.integers(3, size=COUNT), "truth": LABELS, "predicted": GUESSES}
        | {"score": CONFIDENCE},
        {"y": RNG.integers(3, size=COUNT), "truth": LABELS, "class": GUESSES, "p": CONFIDENCE},
    ],
    ids=", ".join,
)
def test_a_coordinate_or_a_number_of_the_row_is_no_prediction(columns: Any, tmp_path: Path) -> None:
    found = measured(read(tmp_path, columns))
    assert found["error"] == pytest.approx(error(PROBS, LABELS))
    assert found["ece"] == pytest.approx(ece(CONFIDENCE, GUESSES == LABELS))


def test_a_number_of_the_row_beside_one_score_is_ignored(tmp_path: Path) -> None:
    pixel = RNG.integers(200, size=COUNT)
    for beside in ({"obs": ROWS, "truth": ILL}, {"x": 1, "y": pixel, "target": ILL}):
        model = read(tmp_path, {**beside, "prob": RISK})
        torch.testing.assert_close(model.probs[:, 1], torch.from_numpy(RISK))
        assert torch.equal(model.labels, torch.from_numpy(ILL))


@pytest.mark.parametrize("ids", [True, False])
def test_one_row_for_each_sample_and_class_is_pivoted(ids: bool, tmp_path: Path) -> None:
    columns = {
        "image_id": np.repeat(ROWS, 3),
        "class": np.tile(NAMES, COUNT),
        "prob": PROBS.reshape(-1),
        "true_label": np.repeat(NAMES[LABELS], 3),
    }
    frame = pd.DataFrame(columns)
    frame = frame.sample(frac=1, random_state=1) if ids else frame.drop(columns="image_id")
    model = read(tmp_path, frame)
    assert len(model.labels) == COUNT
    assert model.classes == ("cat", "dog", "emu")
    found = measured(model)
    assert found["error"] == pytest.approx(error(PROBS, LABELS))
    assert found["nll"] == pytest.approx(-np.log(PROBS[ROWS, LABELS]).mean())
    frame["prob"] *= 0.5
    if ids:
        with pytest.raises(UserError, match="one row for each class in class, but prob does not"):
            read(tmp_path, frame)


def test_scores_that_fall_in_every_row_are_ranks(tmp_path: Path) -> None:
    order = (-PROBS).argsort(axis=1)
    ranked = np.take_along_axis(PROBS, order, axis=1)
    probs = {f"prob{rank + 1}": ranked[:, rank] for rank in range(3)}
    for classes in (order, NAMES[order]):
        labels = LABELS if classes is order else NAMES[LABELS]
        ranks = {f"class{rank + 1}": classes[:, rank] for rank in range(3)}
        model = read(tmp_path, {**ranks, **probs, "true_label": labels})
        torch.testing.assert_close(model.probs, torch.from_numpy(PROBS))
        assert torch.equal(model.labels, torch.from_numpy(LABELS))
    with pytest.raises(UserError, match="fall from the first to the last in every row"):
        read(tmp_path, {**probs, "true_label": LABELS + 1})
    model = read(tmp_path, {**probs, "true_label": LABELS + 1}, scores=(*probs,))
    torch.testing.assert_close(model.probs, torch.from_numpy(ranked))
    del ranks["class3"], probs["prob3"]  # the two largest
    with pytest.raises(UserError, match="`predicted=class1` `confidence=prob1`"):
        read(tmp_path, {**ranks, **probs, "true_label": NAMES[LABELS]})
    top = read(
        tmp_path,
        {**ranks, **probs, "true_label": NAMES[LABELS]},
        predicted="class1",
        confidence="prob1",
    )
    assert measured(top)["error"] == pytest.approx(error(PROBS, LABELS))


def test_a_margin_is_no_logit_if_the_predictions_contradict(tmp_path: Path) -> None:
    margin, right = np.abs(2 * RISK - 1), ALARM == ILL
    entropy = -(RISK * np.log(RISK) + (1 - RISK) * np.log(1 - RISK))
    columns = {"y_true": ILL, "y_pred": ALARM, "margin": margin}
    for beside in (entropy, entropy / np.log(2)):
        found = measured(read(tmp_path, {**columns, "entropy": beside}))
        assert found["error"] == pytest.approx(1 - right.mean())
        assert found["ece"] == pytest.approx(ece((1 + margin) / 2, right))
    with pytest.raises(UserError, match="margin is never negative, so it is no logit of class 1"):
        read(tmp_path, columns)


@pytest.mark.parametrize("statistic", ["prob_{}_std", "prob_{}_var", "prob_{}.sd"])
@pytest.mark.parametrize("size", [1e-4, 0.3])
def test_statistics_of_scores_are_no_classes(statistic: str, size: float, tmp_path: Path) -> None:
    columns = {f"prob_{k}": PROBS[:, k] for k in range(3)}
    columns |= {statistic.format(k): size * RNG.random(COUNT) for k in range(3)}
    for more in ({}, {"prob_var": 1e-3 * RNG.random(COUNT)}):
        model = read(tmp_path, columns | more | {"label": LABELS})
        assert model.classes == ("0", "1", "2")
        nll = measured(model)["nll"]
        assert nll == pytest.approx(-np.log(PROBS[ROWS, LABELS]).mean())


def test_a_class_that_no_label_has_is_mentioned(tmp_path: Path) -> None:
    rows = LABELS != 2
    columns = {f"prob_{name}": PROBS[rows, k] for k, name in enumerate(NAMES)}
    model = read(tmp_path, {**columns, "label": NAMES[LABELS][rows]})
    assert model.classes == ("cat", "dog", "emu")
    assert "no label is emu" in str(model.read)


def test_several_labels_of_a_sample_are_decisions(tmp_path: Path) -> None:
    own = RNG.random((COUNT, 3)) < 1 / (1 + np.exp(-LOGITS))
    probs = 1 / (1 + np.exp(-LOGITS))
    losses = -np.where(own, np.log(probs), np.log(1 - probs))
    judgement = calsweep.judge(LOGITS, own.astype(int), logits=True)
    assert judgement.metrics["nll"]["value"] == pytest.approx(losses.mean())
    assert judgement.metrics["error"]["value"] == pytest.approx(((probs > 0.5) != own).mean())
    [found] = judgement.facts["models"]
    assert found["clusters"] == COUNT
    groups = [each["nll"]["value"] for each in found["per_group"]]
    assert groups == pytest.approx(losses.mean(axis=0))
    np.savez(tmp_path / "many.npz", probs=probs, labels=own.astype(int))
    [model] = read_predictions([str(tmp_path / "many.npz")])
    assert measured(model)["nll"] == pytest.approx(losses.mean())
    with pytest.raises(UserError, match="samples have several labels; but each row of the pred"):
        calsweep.judge(PROBS, own.astype(int))


def test_row_numbers_of_files_without_a_header_are_no_scores(tmp_path: Path) -> None:
    for values in (PROBS, LOGITS):
        pd.DataFrame(values).to_csv(tmp_path / "z.csv", header=False)
        pd.Series(LABELS).to_csv(tmp_path / "y.csv", header=False)
        [model] = read_predictions([str(tmp_path / "z.csv")], Asked(labels=str(tmp_path / "y.csv")))
        torch.testing.assert_close(model.probs, torch.from_numpy(PROBS))
        assert torch.equal(model.labels, torch.from_numpy(LABELS))


def test_a_feature_called_model_splits_nothing(tmp_path: Path) -> None:
    columns = {f"prob_{k}": PROBS[:, k] for k in range(3)} | {"label": LABELS}
    feature = columns | {"model": RNG.choice(["golf", "polo"], COUNT)}
    model = read(tmp_path, feature)
    assert len(model.labels) == COUNT
    assert "model names no models, because its parts are different samples" in str(model.read)
    twice = pd.concat([pd.DataFrame(columns).assign(model=each) for each in "ab"])
    twice.to_csv(tmp_path / "two.csv", index=False)
    file = [str(tmp_path / "two.csv")]
    assert [each.name for each in read_predictions(file)] == ["a", "b"]
    assert len(read_predictions(file, Asked(model=""))) == 1


@pytest.mark.parametrize("word", ["abstain", -1])
def test_abstentions_are_counted_and_left_out(word: Any, tmp_path: Path) -> None:
    accepted = CONFIDENCE > 0.5
    labels, guesses = (LABELS, GUESSES) if word == -1 else (NAMES[LABELS], NAMES[GUESSES])
    said = np.where(accepted, guesses.astype(object), word)
    model = read(tmp_path, {"y_true": labels, "y_pred": said, "confidence": CONFIDENCE})
    right = (GUESSES != LABELS)[accepted].mean()
    assert measured(model)["error"] == pytest.approx(right)
    note = f"y_pred abstains in {COUNT - accepted.sum()} of 600 samples, the others are judged: cov"
    assert note in str(model.read)


def test_the_first_line_says_where_predictions_contradict_the_scores(tmp_path: Path) -> None:
    columns = {f"prob_{k}": PROBS[:, k] for k in range(3)} | {"label": LABELS}
    other = RNG.integers(3, size=COUNT)
    model = read(tmp_path, columns | {"y_pred": other})
    share = (PROBS.max(1) - PROBS[ROWS, other] > 0.01).mean()
    first = f"y_pred differs from the most likely class in {100 * share:.0f} % of the rows; prob"
    assert str(model.read).startswith(first)
    assert not read(tmp_path, columns | {"y_pred": GUESSES}).read.first
    model = read(tmp_path, columns | {"y_pred": np.where(ROWS < 9, -1, GUESSES)})
    first = "y_pred abstains in 9 of 600 samples, whose scores are judged, too; prob"
    assert str(model.read).startswith(first)


ORDER = RNG.permutation(COUNT)


def scored(ids: Any) -> pd.DataFrame:
    return pd.DataFrame({"id": ids} | {f"prob_{k}": PROBS[:, k] for k in range(3)})


def test_labels_are_joined_by_id(tmp_path: Path) -> None:
    ids = np.array([f"img{each}" for each in ROWS])
    scored(ids).to_csv(tmp_path / "pred.csv", index=False)
    truth = pd.DataFrame({"id": ids, "label": LABELS}).iloc[ORDER]
    truth.to_csv(tmp_path / "truth.csv", index=False)
    asked = Asked(labels=str(tmp_path / "truth.csv"))
    [model] = read_predictions([str(tmp_path / "pred.csv")], asked)
    assert measured(model)["error"] == pytest.approx(error(PROBS, LABELS))
    assert "labels from label of truth.csv by id" in str(model.read)
    np.savez(tmp_path / "pred.npz", probs=PROBS, ids=ids)
    np.savez(tmp_path / "truth.npz", labels=LABELS[ORDER], ids=ids[ORDER])
    asked = Asked(labels=str(tmp_path / "truth.npz"))
    [model] = read_predictions([str(tmp_path / "pred.npz")], asked)
    assert measured(model)["error"] == pytest.approx(error(PROBS, LABELS))
    truth.assign(id=truth["id"] + "x").to_csv(tmp_path / "truth.csv", index=False)
    asked = Asked(labels=str(tmp_path / "truth.csv"))
    with pytest.raises(UserError, match=r"different samples: 600 values of 'id' are missing in"):
        read_predictions([str(tmp_path / "pred.csv")], asked)
    asked = Asked(labels=str(tmp_path / "truth.csv"), id="")
    [model] = read_predictions([str(tmp_path / "pred.csv")], asked)
    assert measured(model)["error"] == pytest.approx(error(PROBS, LABELS[ORDER]))


def test_the_index_that_pandas_writes_joins_labels(tmp_path: Path) -> None:
    scored(ROWS).drop(columns="id").to_csv(tmp_path / "pred.csv")
    pd.DataFrame({"label": LABELS}).iloc[ORDER].to_csv(tmp_path / "truth.csv")
    asked = Asked(labels=str(tmp_path / "truth.csv"))
    [model] = read_predictions([str(tmp_path / "pred.csv")], asked)
    assert torch.equal(model.labels, torch.from_numpy(LABELS))
    # An index that was reset in one of the files identifies nothing.
    pd.DataFrame({"label": LABELS}, index=ROWS + 5000).to_csv(tmp_path / "truth.csv")
    [model] = read_predictions([str(tmp_path / "pred.csv")], asked)
    assert torch.equal(model.labels, torch.from_numpy(LABELS))


def test_models_are_compared_on_the_same_ids(tmp_path: Path) -> None:
    frame = scored(ROWS).assign(label=LABELS)
    frame.to_csv(tmp_path / "a.csv", index=False)
    frame.iloc[ORDER].to_csv(tmp_path / "b.csv", index=False)
    pd.concat([frame.assign(model="a"), frame.iloc[ORDER].assign(model="b")]).to_parquet(
        tmp_path / "both.parquet", index=False
    )
    for files in (["a.csv", "b.csv"], ["both.parquet"]):
        first, second = read_predictions([str(tmp_path / each) for each in files])
        torch.testing.assert_close(first.probs, second.probs)
        assert torch.equal(first.labels, second.labels)
        assert "matched by id" in str(second.read)
    frame.assign(id=ROWS + 1).to_csv(tmp_path / "b.csv", index=False)
    with pytest.raises(UserError, match="1 values of 'id' are missing"):
        read_predictions([str(tmp_path / each) for each in ("a.csv", "b.csv")])
    probs = frame.filter(like="prob")
    with pytest.raises(UserError, match=r"b and a have the same index.*pass b.loc\[a.index\]"):
        calsweep.judge({"a": probs, "b": probs.iloc[::-1]}, LABELS)


def test_numbers_without_the_name_of_an_id_match_nothing(tmp_path: Path) -> None:
    for name, scores in (("a.csv", PROBS), ("b.csv", PROBS[::-1])):
        frame = pd.DataFrame({f"prob_{k}": scores[:, k] for k in range(3)})
        frame = frame.assign(rank=scores[:, 0].argsort().argsort(), label=LABELS)
        frame.to_csv(tmp_path / name, index=False)
    _, second = read_predictions([str(tmp_path / "a.csv"), str(tmp_path / "b.csv")])
    torch.testing.assert_close(second.probs, torch.from_numpy(PROBS[::-1].copy()))


@pytest.mark.parametrize("factor", [1, 3])
def test_the_same_numbers_in_a_file_of_labels_are_ids(tmp_path: Path, factor: int) -> None:
    numbers = ROWS * factor + 5
    scored(ROWS).assign(id=numbers).rename(columns={"id": "nr"}).to_csv(tmp_path / "a.csv")
    truth = pd.DataFrame({"nr": numbers, "label": LABELS}).iloc[ORDER]
    truth.to_csv(tmp_path / "b.csv", index=False)
    asked = Asked(labels=str(tmp_path / "b.csv"))
    [model] = read_predictions([str(tmp_path / "a.csv")], asked)
    assert model.labels.tolist() == LABELS.tolist()
    assert model.read.labels == "label of b.csv by nr"
    truth.assign(nr=truth["nr"] + factor).to_csv(tmp_path / "b.csv", index=False)
    with pytest.raises(UserError, match="1 values of 'nr' are missing"):
        read_predictions([str(tmp_path / "a.csv")], asked)


def test_several_predictions_of_a_sample_have_its_label(tmp_path: Path) -> None:
    three = pd.concat([scored(ROWS) for _ in range(3)]).sample(frac=1, random_state=2)
    three.to_csv(tmp_path / "pred.csv", index=False)
    pd.DataFrame({"id": ROWS, "label": LABELS}).to_csv(tmp_path / "truth.csv", index=False)
    asked = Asked(labels=str(tmp_path / "truth.csv"))
    [model] = read_predictions([str(tmp_path / "pred.csv")], asked)
    assert float((model.probs.argmax(1) != model.labels).double().mean()) == pytest.approx(
        error(PROBS, LABELS)
    )
    assert model.clusters is not None


def test_rows_of_the_same_id_are_clusters(tmp_path: Path) -> None:
    five = pd.concat([scored(ROWS).assign(label=LABELS, seed=each) for each in range(5)])
    model = read(tmp_path, five)
    once = calsweep.judge(PROBS, LABELS).metrics["error"]
    [found] = judge([model]).models
    width = found.metrics["error"].high - found.metrics["error"].low
    assert found.clusters == COUNT
    assert width == pytest.approx(once["high"] - once["low"], rel=0.05)
    assert "clusters are the values of id" in str(model.read)
    assert read(tmp_path, five, cluster="").clusters is None
    assert read(tmp_path, five.iloc[:COUNT]).clusters is None


@pytest.mark.parametrize(
    ("pattern", "labels"),
    [
        ("resnet_prob_{}", LABELS),
        ("resnet_prob_{}", NAMES[LABELS]),
        ("P (class={})", NAMES[LABELS]),
        ("P (class={})", LABELS + 10),
    ],
)
def test_names_without_what_they_have_in_common_are_the_classes(
    pattern: str, labels: Any, tmp_path: Path
) -> None:
    words = [0, 2, 1] if labels is LABELS else [10, 12, 11] if labels[0] in (10, 11, 12) else NAMES
    names = [pattern.format(each) for each in words]
    order = [0, 2, 1] if words is not NAMES else [0, 1, 2]
    columns = dict(zip(names, PROBS[:, order].T, strict=True)) | {"y": labels}
    model = read(tmp_path, columns, scores=tuple(names))
    found = measured(model)
    assert found["nll"] == pytest.approx(-np.log(PROBS[ROWS, LABELS]).mean())


def test_names_without_classes_are_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    columns = {"first": PROBS[:, 0], "second": PROBS[:, 1], "third": PROBS[:, 2], "label": LABELS}
    model = read(tmp_path, columns, scores=("first", "second", "third"))
    assert measured(model)["error"] == pytest.approx(error(PROBS, LABELS))
    with pytest.raises(UserError, match=r"sums to 1\.\d+.*`scores=NAME,NAME"):
        read(tmp_path, {"prob_0": PROBS[:, 0], "prob_1": 1 - PROBS[:, 0] / 2, "label": LABELS % 2})


def test_soft_labels_recommend_no_scaling() -> None:
    assert calsweep.judge(PROBS, PROBS).recommended is None
