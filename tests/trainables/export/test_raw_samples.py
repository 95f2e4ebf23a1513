"""Unusable new samples are rejected, or skipped on request."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image

from trainables.data import Arrays, Images, TableRows
from trainables.data.kinds.encode import encode
from trainables.data.kinds.table import Columns
from trainables.data.kinds.tokens import WeightedWords
from trainables.export.calibrated import CalibratedClassifier
from trainables.export.raw_samples import describe_samples, read_raw


def test_unreadable_images_are_skipped_on_request(tmp_path: Path) -> None:
    samples = Images((1, 4, 4), (0.5,), (0.5,))
    for number in range(3):
        Image.fromarray(np.full((4, 4), number, np.uint8)).save(tmp_path / f"{number}.png")
    (tmp_path / "1.png").write_bytes(b"no image")
    with pytest.raises(ValueError, match=r"1\.png: not a readable image"):
        read_raw(samples, tmp_path)
    rows, names, (note,) = read_raw(samples, tmp_path, on_bad_sample="skip")
    assert rows[:, 0, 0, 0].tolist() == [0, 2]
    assert names == [str(tmp_path / "0.png"), str(tmp_path / "2.png")]
    head, line = note.splitlines()
    assert head == "1 of 3 samples are skipped:"
    assert line.startswith(f"{tmp_path}/1.png: not a readable image")
    for number in (0, 2):
        (tmp_path / f"{number}.png").unlink()
    with pytest.raises(ValueError, match=r"1\.png: not a readable image"):  # nothing is left
        read_raw(samples, tmp_path, on_bad_sample="skip")


def test_coloured_images_are_named_if_the_model_is_for_greyscale(tmp_path: Path) -> None:
    samples = Images((1, 4, 4), (0.5,), (0.5,))
    Image.new("L", (4, 4), 7).save(tmp_path / "grey.png")
    Image.new("RGB", (4, 4), (7, 7, 7)).save(tmp_path / "grey as rgb.png")
    Image.new("RGB", (4, 4), "red").save(tmp_path / "red.png")
    with pytest.raises(ValueError, match=r"red\.png: an image in colour, while the model is for"):
        read_raw(samples, tmp_path)
    rows, names, _ = read_raw(samples, tmp_path, on_bad_sample="skip")
    assert (rows == 7).all() and rows.shape == (2, 1, 4, 4)
    assert [Path(name).stem for name in names] == ["grey as rgb", "grey"]


def test_rows_with_numbers_that_are_none_are_skipped_on_request(tmp_path: Path) -> None:
    rows = np.ones((4, 3), np.float32)
    rows[1, 2], rows[3, 0] = np.nan, np.inf
    np.save(tmp_path / "rows.npy", rows)
    samples = Arrays.unscaled((3,))
    with pytest.raises(ValueError, match=r"^2 of 4 samples cannot be used"):
        read_raw(samples, tmp_path / "rows.npy")
    found, names, _ = read_raw(samples, tmp_path / "rows.npy", on_bad_sample="skip")
    assert found.tolist() == [[1, 1, 1]] * 2
    assert names == ["0", "2"]


def test_a_missing_number_in_a_table_is_allowed(tmp_path: Path) -> None:
    (tmp_path / "new.csv").write_text("a,b\n1,2\n,3\ninf,4\n")
    trained = Columns(pa.table({"a": [1.0, None, 3.0], "b": [1.0, 2.0, 3.0]}))
    samples = TableRows.measured(trained, numeric=["a", "b"], categorical=[])
    found, names, (note,) = read_raw(samples, tmp_path / "new.csv", on_bad_sample="skip")
    assert names == ["0", "1"]
    assert np.isnan(found[1, 0])
    assert "row 2 (from 0): a is infinite" in note


@pytest.mark.parametrize("shape", [(5, 4, 6), (5, 1, 4, 6), (5, 4, 6, 1)])
def test_images_of_an_array_may_have_any_usual_layout(
    tmp_path: Path, shape: tuple[int, ...]
) -> None:
    samples = Images((1, 4, 6), (0.5,), (0.5,))
    images = np.arange(5 * 24, dtype=np.uint8).reshape(shape)
    np.save(tmp_path / "images.npy", images)
    rows, _, _ = read_raw(samples, tmp_path / "images.npy")
    assert np.array_equal(rows, images.reshape(5, 1, 4, 6))
    classifier = CalibratedClassifier(torch.nn.Identity(), samples, 1.0, ("a", "b"))
    assert np.array_equal(classifier.encode(images), rows)


@pytest.mark.parametrize(
    ("images", "message"),
    [
        (np.zeros((5, 4, 6)), "must be uint8 from 0 to 255, not float64"),
        (np.zeros((5, 24), np.uint8), r"shape \(5, 24\)"),
        (np.zeros((5, 6, 4), np.uint8), r"shape \(5, 6, 4\)"),
    ],
)
def test_other_arrays_are_no_images(tmp_path: Path, images: npt.NDArray[Any], message: str) -> None:
    samples = Images((1, 4, 6), (0.5,), (0.5,))
    np.save(tmp_path / "images.npy", images)
    classifier = CalibratedClassifier(torch.nn.Identity(), samples, 1.0, ("a", "b"))
    for read in (
        lambda: read_raw(samples, tmp_path / "images.npy"),
        lambda: classifier.encode(images),
    ):
        with pytest.raises((TypeError, ValueError), match=message) as refused:
            read()
        assert "uint8, not uint8" not in str(refused.value)


@pytest.mark.parametrize(
    "raw", ["good film", {"text": ["good film"]}, pa.table({"text": ["good"]})]
)
def test_texts_are_a_list_of_strings(raw: Any) -> None:
    """Letters of a string, keys and names of columns are strings, too."""
    samples = WeightedWords.measured(
        np.array(["good film"], dtype=object), max_words=9, max_tokens=9
    )
    classifier = CalibratedClassifier(torch.nn.Identity(), samples, 1.0, ("a", "b"))
    with pytest.raises(TypeError, match=f"list of strings is expected, not a {type(raw).__name__}"):
        classifier.encode(raw)


@pytest.mark.parametrize("text", ["", " ... "])
def test_a_text_without_a_word_is_refused_as_in_a_file(text: str, tmp_path: Path) -> None:
    samples = WeightedWords.measured(
        np.array(["good film"], dtype=object), max_words=9, max_tokens=9
    )
    pq.write_table(pa.table({"text": ["good", text]}), tmp_path / "texts.parquet")
    with pytest.raises(ValueError, match=r"row 1 \(from 0\): there is no"):
        read_raw(samples, tmp_path / "texts.parquet", "text")
    with pytest.raises(ValueError, match=r"text 1 \(from 0\), .*has no word"):
        encode(describe_samples(samples), ["good", text])
