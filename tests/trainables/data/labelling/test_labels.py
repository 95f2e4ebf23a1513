from typing import Any

import numpy as np
import pytest

from trainables.data.core.bad_samples import BadSamples, settle
from trainables.data.core.types import Labels
from trainables.data.labelling.targets import index_parts


def index(
    train: list[Any], test: list[Any], names: tuple[str, ...] | None = None
) -> tuple[Labels, Labels, tuple[str, ...]]:
    bad = (
        BadSamples(len(train), lambda row: f"train row {row}"),
        BadSamples(len(test), lambda row: f"test row {row}"),
    )
    found, classes = index_parts([np.array(train), np.array(test)], names, bad)
    settle(list(bad), "error")
    return found[0].labels, found[1].labels, classes


@pytest.mark.parametrize(
    ("train", "test", "names", "expected"),
    [
        (["dog", "cat", "dog"], ["cat"], None, ([1, 0, 1], [0], ("cat", "dog"))),
        ([4, 1, 3], [3, 1], None, ([2, 0, 1], [1, 0], ("1", "3", "4"))),
        ([2, 0], [0], ("a", "b", "c"), ([2, 0], [0], ("a", "b", "c"))),
        (["b", "a"], ["b"], ("b", "a"), ([0, 1], [0], ("b", "a"))),
    ],
)
def test_indices(
    train: list[Any],
    test: list[Any],
    names: tuple[str, ...] | None,
    expected: tuple[list[int], list[int], tuple[str, ...]],
) -> None:
    train_labels, test_labels, classes = index(train, test, names)
    assert (train_labels.tolist(), test_labels.tolist(), classes) == expected
    assert train_labels.dtype == test_labels.dtype == np.int64


@pytest.mark.parametrize(
    ("train", "test", "names", "message"),
    [
        ([0, -1], [0], None, "train row 1: label -1 must be at least 0"),
        ([0, 1], [0, 1, -3], None, "test row 2: label -3 must be at least 0"),
        ([0, 2], [0], ("a", "b"), "train row 1: label 2 must be at least 0 and below 2"),
        (["a", "c"], ["a"], ("a", "b"), "train row 1: label c is not among the class names: a, b"),
        ([0, 1], [1, 2], None, "test row 1: label 2 does not occur in training; known: 0, 1"),
        (["a", "b"], ["z"], None, r"test row 0: label z does not occur in training; known: a, b"),
        ([0, 1], ["0"], None, "test row 0: labels are not of the same type as in training"),
        ([3, 3], [3], None, "train row 0: all training labels are 3; two classes are needed"),
    ],
)
def test_refused(
    train: list[Any], test: list[Any], names: tuple[str, ...] | None, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        index(train, test, names)
