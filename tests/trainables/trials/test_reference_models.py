"""Reference models, fitted on the splits of a sweep."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import pytest
import sklearn.linear_model
import torch

from tests.trainables.test_every_kind_of_data import arrays, table, texts, weighted_words
from trainables.data import Dataset, load_dataset
from trainables.data.core.base import Split
from trainables.export.calibrated import CalibratedClassifier
from trainables.export.exported import export_program, load_program
from trainables.models.simple import simple_model
from trainables.trials.reference_models import reference_models


def image_folder(folder: Path) -> dict[str, object]:
    from PIL import Image

    draw = np.random.default_rng(0)
    for index in range(60):
        place = folder / "images" / "ab"[index % 2]
        place.mkdir(parents=True, exist_ok=True)
        pixels = draw.integers(0, 100, (60, 40, 3), dtype=np.uint8)
        pixels[: 30 * (index % 2)] += 100
        Image.fromarray(pixels).save(place / f"{index}.png")
    return {"name": "image_folder", "root": str(folder / "images")}


def mixed(folder: Path) -> dict[str, object]:
    """Numbers with missing values, categories and three classes."""
    draw = np.random.default_rng(0)
    lines = ["number,other,word,label"]
    for _ in range(600):
        number, other, word = draw.normal(), draw.integers(5), draw.integers(30)
        label = int(number > 0.3) + int(word < 10)
        shown = "" if draw.random() < 0.1 else f"{number:.6f}"
        lines.append(f"{shown},{other},word{word},{label}")
    (folder / "mixed.csv").write_text("\n".join(lines))
    return {"name": "csv", "train": str(folder / "mixed.csv")}


@pytest.fixture
def fitted(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The libraries' models as they are fitted, with their features."""
    found: list[Any] = []
    for module, name in (
        (sklearn.linear_model, "LogisticRegression"),
        (lightgbm, "LGBMClassifier"),
    ):
        kind = getattr(module, name)

        def fit(self: Any, features: Any, *arguments: Any, kind: Any = kind, **more: Any) -> Any:
            found.append((self, features))
            return kind.fit(self, features, *arguments, **more)

        monkeypatch.setattr(module, name, type(name, (kind,), {"fit": fit}))
    return found


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
@pytest.mark.parametrize(
    ("make_data", "names"),
    [
        (table, ["gradient boosting", "logistic regression"]),
        (mixed, ["gradient boosting", "logistic regression"]),
        (texts, ["TF-IDF + logistic regression"]),
        (weighted_words, ["TF-IDF + logistic regression"]),
        (image_folder, ["logistic regression on pixels"]),
        (arrays, ["logistic regression"]),
    ],
)
def test_references_are_networks_with_the_libraries_probabilities(
    tmp_path: Path, fitted: list[Any], make_data: Any, names: list[str]
) -> None:
    dataset: Dataset = load_dataset(seed=0, **make_data(tmp_path))
    found = list(reference_models(dataset))
    assert [each.name for each in found] == names
    inputs = dataset.samples.prepare(torch.from_numpy(dataset.train.rows(slice(None))))
    for each, (model, features) in zip(found, fitted, strict=True):
        expected = model.predict_proba(features)
        kept = simple_model(each.model.to_bytes())
        assert np.abs(kept(inputs).exp().numpy() - expected).max() < 1e-6
        classifier = CalibratedClassifier(kept, dataset.samples, 1.0, dataset.classes)
        rows = dataset.train.rows(slice(None))
        program = load_program(export_program(classifier, rows)).module()
        assert np.abs(program(torch.from_numpy(rows)).numpy() - expected).max() < 1e-6
    best = found[0].test
    assert (best.logits.argmax(1) != best.labels).mean() < 0.2


def test_classes_without_a_training_sample_are_unlikely(tmp_path: Path) -> None:
    lines = [f"{index % 2},{index % 2}" for index in range(40)]
    (tmp_path / "a.csv").write_text("\n".join(["x,label", *lines]))
    (tmp_path / "b.csv").write_text("\n".join(["x,label", *lines, "0,2", "1,2"]))
    dataset = load_dataset("csv", seed=0, train=tmp_path / "b.csv", test=tmp_path / "a.csv",
                           validation=10)  # fmt: skip
    only_two = np.flatnonzero(dataset.train.labels < 2)
    train = Split(dataset.train.rows(only_two), dataset.train.labels[only_two])
    for found in reference_models(replace(dataset, train=train)):
        assert np.exp(found.test.logits[:, 2]) == pytest.approx(1e-9)
        assert found.test.logits[:, :2].max() > -1


def test_a_column_without_values_is_no_obstacle(tmp_path: Path) -> None:
    lines = [f"{index % 2 + index / 100},,{index % 2}" for index in range(60)]
    (tmp_path / "a.csv").write_text("\n".join(["x,empty,label", *lines]))
    for each in reference_models(load_dataset("csv", seed=0, train=tmp_path / "a.csv")):
        assert np.array_equal(each.test.logits.argmax(1), each.test.labels)
