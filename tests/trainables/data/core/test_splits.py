import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainables.data.core.base import Targets
from trainables.data.core.options import CommonOptions
from trainables.data.core.splits import About, Part, build_dataset
from trainables.data.core.stratified import (
    HeldOutSplit,
    long_tailed,
    stratified_sample,
    stratified_split,
)
from trainables.data.core.types import Indices, Labels
from trainables.data.kinds.arrays import Images

counts_per_class = st.lists(st.integers(2, 60), min_size=2, max_size=8)


def labels_of(counts: list[int]) -> Labels:
    labels = np.repeat(np.arange(len(counts)), counts)
    return np.random.default_rng(0).permutation(labels)


@given(counts=counts_per_class, seed=st.integers(0, 2**32), data=st.data())
def test_split_is_a_partition_with_each_class_in_both_parts(
    counts: list[int], seed: int, data: st.DataObject
) -> None:
    labels = labels_of(counts)
    size = data.draw(st.integers(len(counts), len(labels) - len(counts)))
    first, second = stratified_split(labels, HeldOutSplit("validation", size, seed))
    assert len(second) == size
    np.testing.assert_array_equal(np.sort(np.concatenate([first, second])), np.arange(len(labels)))
    for part in (first, second):
        np.testing.assert_array_equal(part, np.sort(part))
        np.testing.assert_array_equal(np.unique(labels[part]), np.arange(len(counts)))


@given(counts=st.lists(st.integers(10, 60), min_size=2, max_size=8), seed=st.integers(0, 2**32))
def test_each_class_has_its_share_to_one_sample(counts: list[int], seed: int) -> None:
    labels = labels_of(counts)
    _, held = stratified_split(labels, HeldOutSplit("validation", 0.25, seed))
    exact = len(held) * np.array(counts) / len(labels)
    assert np.all(np.abs(np.bincount(labels[held]) - exact) < 1)


@given(counts=counts_per_class, seed=st.integers(0, 2**32), data=st.data())
def test_sample_has_the_size_and_every_class(
    counts: list[int], seed: int, data: st.DataObject
) -> None:
    labels = labels_of(counts)
    size = data.draw(st.integers(len(counts), len(labels)))
    drawn = stratified_sample(labels, size, seed=seed)
    assert len(np.unique(drawn)) == len(drawn) == size
    assert len(np.unique(labels[drawn])) == len(counts)


def test_shares_by_hand() -> None:
    labels = labels_of([70, 20, 10])
    _, held = stratified_split(labels, HeldOutSplit("validation", 0.1, 0))
    np.testing.assert_array_equal(np.bincount(labels[held]), [7, 2, 1])


def test_seeds_decide() -> None:
    labels = labels_of([50, 50])
    first, again, other = (
        stratified_split(labels, HeldOutSplit("validation", 0.5, seed))[1] for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


@pytest.mark.parametrize(
    ("counts", "held_out", "message"),
    [
        ([5, 1], 2, "class 'dog' has only one sample; two are needed, one for training"),
        ([5, 5], 1, r"validation=1 holds out 1 of 10 samples; with 2 classes it must be 2 to 8"),
        ([5, 5], 9, r"holds out 9 of 10"),
        ([5, 5], 0.01, r"validation=0.01 holds out 0 of 10"),
    ],
)
def test_split_refuses(counts: list[int], held_out: float, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        stratified_split(labels_of(counts), HeldOutSplit("validation", held_out, 0), ("cat", "dog"))


def test_a_class_in_three_parts_needs_three_samples() -> None:
    def split(counts: list[int], size: float) -> tuple[Indices, Indices]:
        held = HeldOutSplit("test_size", size, seed=0)
        return stratified_split(labels_of(counts), held, ("cat", "dog"))

    message = "class 'dog' has only 2 samples; three are needed, one each for training, validation"
    with pytest.raises(ValueError, match=message):
        split([9, 2], 0.2)
    with pytest.raises(ValueError, match="with 2 classes it must be 2 to 8"):
        split([9, 3], 9)
    rest, held = split([9, 3], 8)
    np.testing.assert_array_equal(np.bincount(labels_of([9, 3])[rest]), [2, 2])
    assert len(held) == 8


def test_a_tail_keeps_two_samples_of_each_class() -> None:
    labels = labels_of([40, 40, 40])
    np.testing.assert_array_equal(
        np.bincount(labels[long_tailed(labels, 0.05, seed=0)]), [40, 8, 2]
    )
    message = (
        "imbalance=0.02 leaves 0 of 40 samples of the last class; two are needed, one for "
        "training and one for validation: allowed: 0.05 to 1"
    )
    with pytest.raises(ValueError, match=message):
        long_tailed(labels, 0.02, seed=0)


@pytest.mark.parametrize("size", [1, 11])
def test_sample_refuses(size: int) -> None:
    with pytest.raises(ValueError, match=rf"train_samples={size} must be 2 .* to 10"):
        stratified_sample(labels_of([5, 5]), size, seed=0)


@pytest.mark.parametrize("train_samples", [None, 10])
def test_build_dataset_keeps_images_with_their_labels(train_samples: int | None) -> None:
    labels = labels_of([30, 30, 30])
    images = labels.astype(np.uint8).reshape(-1, 1, 1, 1)
    inputs = np.broadcast_to(images, (90, 1, 2, 2))
    dataset = build_dataset(
        {
            "train": Part(inputs, Targets(labels)),
            "test": Part(inputs[:6], Targets(labels[:6])),
        },
        About(name="made", classes=("a", "b", "c"), measure=Images.measured),
        CommonOptions(validation=30, train_samples=train_samples, seed=3),
    )
    assert [len(dataset.train), len(dataset.validation)] == [train_samples or 60, 30]
    for split in (dataset.train, dataset.validation, dataset.test):
        np.testing.assert_array_equal(split.inputs[:, 0, 0, 0], split.labels)
    assert dataset.samples.mean == pytest.approx(dataset.train.inputs.mean() / 255)
