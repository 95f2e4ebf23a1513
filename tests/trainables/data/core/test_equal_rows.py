"""Samples of equal content: counted, and kept in one split on request."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image

from calsweep.composing import Composer
from trainables.data import Dataset, dataset_from_arrays, load_dataset
from trainables.data.core.equal_rows import equal_numbers
from trainables.data.kinds.table import Columns

NOISE = np.random.default_rng(0).normal(size=(60, 3)).round(6)
FIVE_TIMES = np.repeat(np.arange(60), 5)


def write(folder: Path, rows: np.ndarray, name: str = "a") -> Path:
    """A CSV file of numbers and a word, and labels that say nothing."""
    labels = np.random.default_rng(1).integers(0, 2, 60)
    lines = [f"{','.join(map(str, NOISE[row]))},w{row % 7},{labels[row]}" for row in rows]
    (folder / f"{name}.csv").write_text("\n".join(["a,b,c,word,label", *lines]) + "\n")
    return folder / f"{name}.csv"


def load(path: Path, **options: Any) -> Dataset:
    return load_dataset("csv", seed=0, train=path, **options)


def test_equal_content_has_equal_numbers() -> None:
    texts = np.array(["a", "b", "a"], dtype=object), np.array(["b", "c"], dtype=object)
    assert [each.tolist() for each in equal_numbers(texts)] == [[0, 1, 0], [1, 2]]
    floats = np.array([[0.0, np.nan], [-0.0, np.nan], [1, 2]], np.float32)
    assert equal_numbers([floats])[0].tolist() == [0, 0, 1]
    images = np.zeros((3, 1, 8, 8), np.uint8)
    images[1, 0, 7, 7] = 1
    assert equal_numbers([images])[0].tolist() == [0, 1, 0]
    tables = [
        Columns(pa.table({"x": [1.0, None, 1.0, None], "w": ["p", None, "q", None]})),
        Columns(pa.table({"x": [1.0, None], "w": ["q", ""]})),
    ]
    assert [each.tolist() for each in equal_numbers(tables)] == [[0, 1, 2, 1], [2, 3]]


def test_rows_that_equal_a_training_row_are_counted(tmp_path: Path) -> None:
    path = write(tmp_path, FIVE_TIMES)
    copied = load(path, test=path)
    assert copied.copies is not None and (copied.copies["test"] >= 0).all()
    both = "30 of 30 validation samples and 300 of 300 test samples equal a training sample"
    assert both in copied.remarks[-1]
    divided = load(path)
    assert divided.copies is not None
    trained = {tuple(row) for row in divided.train.inputs.tolist()}
    for name in ("validation", "test"):
        split = getattr(divided, name)
        expected = [tuple(row) in trained for row in split.inputs.tolist()]
        assert (divided.copies[name] >= 0).tolist() == expected and any(expected)
    alone = load(write(tmp_path, np.arange(60)))
    assert alone.copies is not None and (alone.copies["test"] < 0).all()
    assert not any("equal" in each for each in alone.remarks)


def test_equal_rows_stay_together(tmp_path: Path) -> None:
    dataset = load(write(tmp_path, FIVE_TIMES), group="equal_rows")
    assert dataset.copies is not None
    assert (dataset.copies["test"] < 0).all() and (dataset.copies["validation"] < 0).all()
    assert dataset.test.num_groups == len(dataset.test) / 5
    assert dataset.remarks[0] == "rows that are equal in all features are in one split"
    again = load(write(tmp_path, FIVE_TIMES), group="equal_rows")
    np.testing.assert_array_equal(again.test.inputs, dataset.test.inputs)
    np.savez(tmp_path / "a.npz", x=NOISE[FIVE_TIMES], y=FIVE_TIMES % 2)
    arrays = load_dataset("npz", seed=0, train=tmp_path / "a.npz", group="equal_rows")
    assert arrays.copies is not None and (arrays.copies["test"] < 0).all()
    composer = Composer(str(tmp_path / "store"))
    section = composer.dataset((NOISE[FIVE_TIMES], FIVE_TIMES % 2), "equal_rows")
    assert isinstance(section, dict)
    composed = load_dataset(section.pop("name"), seed=0, **section)
    np.testing.assert_array_equal(composed.test.inputs, arrays.test.inputs)
    few, test = write(tmp_path, np.arange(40)), write(tmp_path, np.arange(35, 60), "test")
    with pytest.raises(ValueError, match="group=equal_rows: 5 samples of test equal a sample of t"):
        load(few, test=test, group="equal_rows")
    lines = [line.rpartition(",")[0] + "," for line in test.read_text().splitlines()[1:6]]
    few.write_text("\n".join([*few.read_text().splitlines()[:36], *lines]))  # without labels
    skipped = load(few, test=test, group="equal_rows", on_bad_sample="skip")
    assert len(skipped.train) + len(skipped.validation) == 35


def test_texts_and_images_are_compared_by_content(tmp_path: Path) -> None:
    lines = [f"word{i % 30} again,{i % 2}" for i in range(60)]
    (tmp_path / "a.csv").write_text("\n".join(["text,label", *lines]))
    texts = load(tmp_path / "a.csv", text="text")
    assert texts.copies is not None
    assert {bool(each >= 0) for each in texts.copies["test"]} == {True, False}
    for part, count in (("train", 12), ("test", 8)):
        for name in ("a", "b"):
            (tmp_path / "images" / part / name).mkdir(parents=True)
            for number in range(count):
                shade = number * 9 + (name == "b") * 5 + (part == "test" and number > 1)
                path = tmp_path / "images" / part / name / f"{number}.png"
                Image.new("RGB", (9, 9), (shade, 7, 7)).save(path)
    for storage in ("memory", "stream"):
        options = {"root": tmp_path / "images", "storage": storage, "cache": tmp_path}
        images = load_dataset("image_folder", seed=0, validation=2, **options)
        assert images.copies is not None
        trained = {row.tobytes() for row in images.train.rows(slice(None))}
        expected = [row.tobytes() in trained for row in images.test.rows(slice(None))]
        assert (images.copies["test"] >= 0).tolist() == expected and any(expected)


def test_own_arrays_are_compared_too() -> None:
    pairs = (NOISE[:40], np.arange(40) % 2), (NOISE[35:], np.arange(25) % 2)
    dataset = dataset_from_arrays("made", *pairs, seed=0, validation=10)
    trained = {tuple(row) for row in dataset.train.inputs.tolist()}
    assert dataset.copies is not None
    expected = [tuple(row) in trained for row in dataset.test.inputs.tolist()]
    assert (dataset.copies["test"] >= 0).tolist() == expected and any(expected)
