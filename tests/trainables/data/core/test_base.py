import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from trainables.data import Dataset, Images, Split
from trainables.data.kinds.augmentation import draw_moves, move, normalise


def make_split(count: int = 6, shape: tuple[int, ...] = (3, 4, 5), num_classes: int = 3) -> Split:
    inputs = np.arange(count * int(np.prod(shape)), dtype=np.uint8).reshape(count, *shape)
    return Split(inputs, np.arange(count) % num_classes)


def make_dataset(**changes: Any) -> Dataset:
    fields: dict[str, Any] = {
        "name": "made",
        "train": make_split(),
        "validation": make_split(4),
        "test": make_split(5),
        "classes": ("a", "b", "c"),
        "samples": Images((3, 4, 5), mean=(0.1, 0.2, 0.3), std=(0.4, 0.5, 0.6)),
    }
    return Dataset(**{**fields, **changes})


def test_properties() -> None:
    dataset = make_dataset()
    assert dataset.num_classes == 3
    assert dataset.input_shape == (3, 4, 5)
    assert len(dataset.validation) == 4


def test_arrays_are_contiguous_and_read_only_and_the_callers_array_is_not_touched() -> None:
    inputs = np.zeros((2, 8, 8, 3), np.uint8).transpose(0, 3, 1, 2)
    labels = np.array([0, 1])
    split = Split(inputs, labels)
    assert split.inputs.flags.c_contiguous
    with pytest.raises(ValueError, match="read-only"):
        split.inputs[0] = 1
    with pytest.raises(ValueError, match="read-only"):
        split.labels[0] = 1
    assert labels.flags.writeable


def test_a_split_does_not_copy_contiguous_arrays() -> None:
    inputs = np.zeros((2, 1, 8, 8), np.uint8)
    assert np.shares_memory(Split(inputs, np.array([0, 1])).inputs, inputs)


def test_pickling_with_buffers_copies_no_array() -> None:
    dataset = make_dataset()
    buffers: list[pickle.PickleBuffer] = []
    stream = pickle.dumps(dataset, protocol=5, buffer_callback=buffers.append)
    assert len(buffers) == 6
    stored = [bytes(buffer.raw()) for buffer in buffers]  # read-only, like shared memory
    restored = pickle.loads(stream, buffers=stored)
    memory = [np.frombuffer(buffer, np.uint8) for buffer in stored]
    for name in ("train", "validation", "test"):
        for field in ("inputs", "labels"):
            array = getattr(getattr(restored, name), field)
            np.testing.assert_array_equal(array, getattr(getattr(dataset, name), field))
            assert not array.flags.writeable
            assert sum(np.shares_memory(array, piece) for piece in memory) == 1


def test_read_only_batches_can_be_prepared_for_training() -> None:
    split = make_split(shape=(3, 8, 8))
    batch = torch.from_numpy(split.inputs[np.array([3, 1])])
    moved = move(batch, draw_moves(batch, "crop_flip"))
    prepared = normalise(moved, (0.5,) * 3, (0.5,) * 3)
    assert prepared.shape == (2, 3, 8, 8)


@pytest.mark.parametrize(
    ("inputs", "labels", "error", "message"),
    [
        ([[1], [2]], np.array([0, 1]), TypeError, "inputs must be a numpy array, not list"),
        (
            np.zeros((2, 1, 8, 8), np.uint8),
            np.array([0, 1], np.int32),
            TypeError,
            "labels .* int64, not int32",
        ),
        (np.zeros((2, 1, 8, 8), np.uint8), [0, 1], TypeError, "labels .* int64, not list"),
        (
            np.zeros(2, np.uint8),
            np.array([0, 1]),
            ValueError,
            r"\(N, ...\) and labels \(N,\), not \(2,\) and \(2,\)",
        ),
        (np.zeros((2, 1, 8, 8), np.uint8), np.array([0]), ValueError, r"and \(1,\)"),
        (
            np.zeros((0, 1, 8, 8), np.uint8),
            np.zeros(0, np.int64),
            ValueError,
            "a split needs samples",
        ),
    ],
)
def test_split_refuses(inputs: Any, labels: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        Split(inputs, labels)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"test": make_split(shape=(1, 4, 5))},
            r"test: images of 3 x 4 x 5 .* are expected, not an array of shape \(6, 1, 4, 5\)",
        ),
        ({"classes": ("a", "b")}, "train labels run from 0 to 2; 2 classes allow 0 to 1"),
        (
            {"validation": replace(make_split(), labels=np.arange(-1, 5) % 3 - 1)},
            "validation labels run from -1 to 1",
        ),
    ],
)
def test_dataset_refuses(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=f"dataset 'made': .*{message}"):
        make_dataset(**changes)


def test_dataset_refuses_another_kind_of_sample() -> None:
    floats = Split(np.zeros((3, 3, 4, 5), np.float32), np.arange(3))
    with pytest.raises(TypeError, match=r"dataset 'made': test: images .* uint8, not float32"):
        make_dataset(test=floats)
