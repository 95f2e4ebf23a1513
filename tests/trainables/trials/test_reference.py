"""Reference models, fitted on the splits of a sweep."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.trainables.test_every_kind_of_data import arrays, table, texts, weighted_words
from trainables.data import Dataset, load_dataset
from trainables.data.core.base import Split
from trainables.trials.reference import reference_models


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


@pytest.mark.parametrize(
    ("make_data", "names"),
    [
        (table, ["gradient boosting", "logistic regression"]),
        (texts, ["TF-IDF + logistic regression"]),
        (weighted_words, ["TF-IDF + logistic regression"]),
        (image_folder, ["logistic regression on pixels"]),
        (arrays, ["logistic regression"]),
    ],
)
def test_each_kind_of_data_has_its_references(
    tmp_path: Path, make_data: object, names: list[str]
) -> None:
    dataset: Dataset = load_dataset(seed=0, **make_data(tmp_path))  # type: ignore[operator]
    found = reference_models(dataset)
    assert list(found) == names
    assert found[names[0]]["test_error"] < 0.1
    for outcome in found.values():
        assert {"val_ece", "test_nll_scaled", "temperature"} <= outcome.keys()


def test_classes_without_a_training_sample_are_unlikely(tmp_path: Path) -> None:
    lines = [f"{index % 2},{index % 2}" for index in range(40)]
    (tmp_path / "a.csv").write_text("\n".join(["x,label", *lines]))
    (tmp_path / "b.csv").write_text("\n".join(["x,label", *lines, "0,2", "1,2"]))
    dataset = load_dataset("csv", seed=0, train=tmp_path / "b.csv", test=tmp_path / "a.csv",
                           validation=10)  # fmt: skip
    only_two = np.flatnonzero(dataset.train.labels < 2)
    train = Split(dataset.train.rows(only_two), dataset.train.labels[only_two])
    found = reference_models(replace(dataset, train=train))
    assert found["logistic regression"]["test_error"] == 0


def test_a_column_without_values_is_no_obstacle(tmp_path: Path) -> None:
    lines = [f"{index % 2 + index / 100},,{index % 2}" for index in range(60)]
    (tmp_path / "a.csv").write_text("\n".join(["x,empty,label", *lines]))
    found = reference_models(load_dataset("csv", seed=0, train=tmp_path / "a.csv"))
    assert {outcome["test_error"] for outcome in found.values()} == {0}
