"""Arrays from NumPy files and from memory."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calsweep
from sweeps.errors import UserError
from trainables.data import Arrays, Dataset, Images, dataset_from_arrays, load_dataset

COUNT = 40


def signals(count: int = COUNT, *shape: int) -> np.ndarray:
    return np.random.default_rng(count).normal(3, 2, (count, *(shape or (2, 9))))


def labels(count: int = COUNT) -> np.ndarray:
    return np.arange(count) % 2


def test_npz_with_named_arrays(tmp_path: Path) -> None:
    for part in range(2):
        rows = slice(20 * part, 20 * part + 20)
        np.savez_compressed(tmp_path / f"{part}.npz", spectra=signals()[rows], kind=labels()[rows])
    options = {"inputs": "spectra", "label": "kind", "validation": 10}
    path = str(tmp_path / "*.npz")
    dataset = load_dataset("npz", seed=0, train=path, test=path, **options)
    np.testing.assert_array_equal(dataset.test.inputs, signals().astype(np.float32))
    np.testing.assert_array_equal(dataset.test.labels, labels())
    assert isinstance(dataset.samples, Arrays)
    train = dataset.train.inputs
    np.testing.assert_allclose(dataset.samples.mean, train.mean((0, 2)), rtol=1e-5)


def test_npy_files(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", signals(COUNT, 5).astype(np.float16))
    np.save(tmp_path / "y.npy", np.array(["no", "yes"])[labels()])
    options = {"train": tmp_path / "x.npy", "train_labels": tmp_path / "y.npy"}
    dataset = load_dataset("npy", seed=0, **options)
    assert dataset.classes == ("no", "yes")
    assert dataset.input_shape == (5,)
    assert [len(dataset.train), len(dataset.validation), len(dataset.test)] == [29, 3, 8]
    with pytest.raises(ValueError, match="test and test_labels are given together"):
        load_dataset("npy", seed=0, **options, test=tmp_path / "x.npy")


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ((8, 9), (1, 8, 9)),
        *(((count, 8, 9), (count, 8, 9)) for count in (1, 2, 3, 4, 8)),
        *(((8, 9, count), (count, 8, 9)) for count in (1, 2, 3, 4, 7)),
        ((16, 15, 13), (13, 16, 15)),
        ((8, 2, 3), (3, 8, 2)),
    ],
)
def test_bytes_are_images(shape: tuple[int, ...], expected: tuple[int, ...]) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (COUNT, *shape), dtype=np.uint8)
    dataset = dataset_from_arrays("made", (pixels, labels()), (pixels, labels()), seed=0)
    assert isinstance(dataset.samples, Images)
    assert dataset.input_shape == expected
    is_last = len(shape) == 3 and shape != expected
    first = pixels[0].transpose(2, 0, 1) if is_last else pixels[0]
    np.testing.assert_array_equal(dataset.test.inputs[0], first.reshape(expected))


def made(inputs: Any = None, targets: Any = None, **options: Any) -> Dataset:
    inputs = signals() if inputs is None else inputs
    return dataset_from_arrays(
        "made", (inputs, labels() if targets is None else targets), seed=0, **options
    )


def with_one(value: float, row: int) -> np.ndarray:
    array = signals()
    array[row, 1, 2] = value
    return array


@pytest.mark.parametrize(
    ("inputs", "targets", "error", "message"),
    [
        (None, labels(39), ValueError, r"train: there are 40 samples, and labels of shape \(39,\)"),
        (None, labels() / 2, ValueError, "labels must be integers from 0, words.*, not 0.5"),
        (np.array([["a"]] * 40), None, TypeError, "samples must be numbers, not <U1"),
        (np.arange(40.0), None, ValueError, r"samples must be \(N, ...\), not of shape \(40,\)"),
        (with_one(np.nan, 7), None, ValueError, r"train, row 7 \(from 0\): a number is infinite"),
        (None, labels() - 1, ValueError, r"row 0 \(from 0\): label -1 must be at least 0"),
    ],
)
def test_bad_arrays(inputs: Any, targets: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        made(inputs, targets)


@pytest.mark.parametrize("kind", [object, np.int64])
def test_signs_and_integers_as_objects_are_labels(kind: Any) -> None:
    signs = np.where(np.arange(COUNT) % 2 == 0, -1, 1).astype(kind)
    dataset = made(targets=signs)
    assert dataset.classes == ("-1", "1")
    assert np.bincount(dataset.test.labels).tolist() == [4, 4]


def test_masked_values_are_missing() -> None:
    mask = np.arange(COUNT) == 7
    masked = np.ma.array(signals())
    masked[mask] = np.ma.masked
    with pytest.raises(ValueError, match=r"train, row 7 \(from 0\): a number is infinite"):
        made(masked)
    with pytest.raises(ValueError, match="labels are masked, so missing, in 1 of 40 rows, the fir"):
        made(targets=np.ma.array(labels(), mask=mask))
    probs = np.ma.array(np.full((COUNT, 2), 0.5), mask=np.tile(mask[:, None], 2))
    with pytest.raises(UserError, match=r"row 7 \(from 0\) of the predictions has NaN or inf"):
        calsweep.judge(probs, labels() % 2)
    with pytest.raises(UserError, match="labels are masked, so missing, in 1 of 40 rows"):
        calsweep.judge(probs.filled(0.5), np.ma.array(labels() % 2, mask=mask))


def test_bad_samples_are_skipped_on_request() -> None:
    dataset = made(with_one(np.inf, 7), on_bad_sample="skip", validation=4)
    assert len(dataset.train) + len(dataset.validation) + len(dataset.test) == COUNT - 1
    assert dataset.notes[0].startswith("1 of 40 samples are skipped:\ntrain, row 7")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"no zip", r"train=\S+a.npz is no file of NumPy arrays, or damaged"),
        (b"", "is no file of NumPy arrays, or damaged"),
    ],
)
def test_files_that_are_no_arrays(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "a.npz").write_bytes(content)
    with pytest.raises(ValueError, match=message):
        load_dataset("npz", seed=0, train=tmp_path / "a.npz")


def test_a_damaged_or_missing_array_is_named(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=signals(), label=labels())
    with pytest.raises(ValueError, match=r"no array 'y' \(option label\).*; its arrays: x, label"):
        load_dataset("npz", seed=0, train=tmp_path / "a.npz")
    content = bytearray((tmp_path / "a.npz").read_bytes())
    content[400:500] = bytes(100)
    (tmp_path / "a.npz").write_bytes(content)
    with pytest.raises(ValueError, match=r"a.npz: array 'x' cannot be read"):
        load_dataset("npz", seed=0, train=tmp_path / "a.npz", label="label")


def test_pickled_objects_are_not_opened(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.array([object()] * 4), y=labels(4))
    with pytest.raises(ValueError, match=r"array .x. cannot be read .has Python objects, which"):
        load_dataset("npz", seed=0, train=tmp_path / "a.npz")
