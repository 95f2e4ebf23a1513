"""Soft labels and sample weights: from files and arrays to a split."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sweeps.judging.inputs import Scores, check_predicted
from trainables.data import Dataset, Split, dataset_from_arrays, load_dataset

COUNT, CLASSES = 300, 3


def probabilities(count: int = COUNT) -> np.ndarray:
    shares = np.random.default_rng(count).dirichlet([0.5] * CLASSES, count)
    shares[::7] = np.eye(CLASSES)[0]
    return shares


def points(count: int = COUNT) -> np.ndarray:
    """Numbers that identify rows."""
    return np.arange(count, dtype=np.float64)[:, None] * [[1.0, -1.0]]


def rows_of(split: Split) -> np.ndarray:
    return split.inputs[:, 0].astype(int)


def weights(count: int = COUNT) -> np.ndarray:
    return np.linspace(0, 2, count)


def check_soft(dataset: Dataset) -> None:
    """Each row has its probabilities, and a label that is drawn from them."""
    for split in (dataset.train, dataset.validation, dataset.test):
        assert split.soft is not None
        expected = probabilities()[rows_of(split)]
        np.testing.assert_allclose(split.soft, expected, rtol=1e-5)
        assert (expected[np.arange(len(split)), split.labels] > 0).all()
        assert split.targets is split.soft
        assert not split.soft.flags.writeable


def check_weights(dataset: Dataset) -> None:
    expected = weights()[rows_of(dataset.train)]
    assert dataset.train.weights is not None
    np.testing.assert_allclose(dataset.train.weights, expected, rtol=1e-6)


def test_arrays() -> None:
    train = (points(), probabilities(), weights())
    dataset = dataset_from_arrays("made", train, seed=0)
    assert dataset.classes == ("0", "1", "2")
    again = dataset_from_arrays("made", train, seed=5)
    np.testing.assert_array_equal(dataset.test.labels, again.test.labels)
    check_soft(dataset)
    check_weights(dataset)


def test_labels_are_drawn_in_proportion() -> None:
    shares = np.tile([[0.0, 0.3, 0.7, 0.0]], (4000, 1))
    test = (np.zeros((4, 2)), np.array([0, 1, 2, 3]))
    dataset = dataset_from_arrays("made", (np.ones((4000, 2)), shares), test, seed=0)
    found = np.bincount(dataset.train.labels, minlength=4) / len(dataset.train)
    np.testing.assert_allclose(found, shares[0], atol=0.03)
    assert found[0] == found[3] == 0
    assert dataset.test.soft is None


@pytest.mark.parametrize("form", ["npz", "npy", "csv", "parquet"])
def test_files(tmp_path: Path, form: str) -> None:
    """The columns of labels and weights are not features."""
    shares, (one, two) = probabilities(), points().T
    columns = dict(zip(("x", "minus_x"), (one, two), strict=True))
    soft = {f"p{k}": shares[:, k] for k in range(CLASSES)}
    options: dict[str, Any] = {"train": tmp_path / f"a.{form}"}
    if form == "npz":
        np.savez(tmp_path / "a.npz", x=points(), y=shares, w=weights())
        options["weight"] = "w"
    elif form == "npy":
        np.save(tmp_path / "a.npy", points())
        np.save(tmp_path / "b.npy", shares)
        options["train_labels"] = tmp_path / "b.npy"
    else:
        table = pa.table({**columns, **soft, "w": weights()})
        pq.write_table(table, tmp_path / "a.parquet")
        if form == "csv":
            table.to_pandas().to_csv(tmp_path / "a.csv", index=False)
        options |= {"soft_labels": list(soft), "weight": "w"}
    dataset = load_dataset(form, seed=0, **options)
    assert dataset.input_shape == (2,)
    standardised = dataset.train.inputs[:, 0]
    mean, std = dataset.samples.mean[0], dataset.samples.std[0]  # type: ignore[attr-defined]
    raw = standardised * std + mean if form in ("csv", "parquet") else standardised
    rows = np.rint(raw).astype(int)
    assert dataset.train.soft is not None
    np.testing.assert_allclose(dataset.train.soft, shares[rows], rtol=1e-4, atol=1e-6)
    assert dataset.classes == (tuple(soft) if form in ("csv", "parquet") else ("0", "1", "2"))
    if form != "npy":
        assert dataset.train.weights is not None
        np.testing.assert_allclose(dataset.train.weights, weights()[rows], rtol=1e-5)


def test_a_test_file_may_have_certain_labels(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x,cat,dog\n" + "1,0.2,0.8\n2,0.9,0.1\n" * 20)
    (tmp_path / "b.csv").write_text("x,label\n1,dog\n2,cat\n")
    options = {"train": tmp_path / "a.csv", "test": tmp_path / "b.csv"}
    dataset = load_dataset("csv", seed=0, soft_labels=["cat", "dog"], **options)
    assert dataset.classes == ("cat", "dog")
    assert dataset.test.labels.tolist() == [1, 0]


@pytest.mark.parametrize(
    "rows",
    [
        np.tile([[0.33, 0.33, 0.33], [0.1, 0.3, 0.6]], (COUNT // 2, 1)),  # two decimals
        np.tile([[1, 2, 0], [0, 0, 7]], (COUNT // 2, 1)),  # votes
    ],
)
def test_rounded_shares_and_votes_are_soft_labels_at_both_doors(rows: np.ndarray) -> None:
    right = rows[:2] / rows[:2].sum(1, keepdims=True)
    split = dataset_from_arrays("made", (points(), rows), seed=0).train
    assert split.soft is not None
    np.testing.assert_allclose(split.soft, right[rows_of(split) % 2], rtol=1e-6)
    judged = check_predicted("ours", Scores(probabilities()), rows)
    assert judged.soft is not None
    np.testing.assert_allclose(judged.soft[:2], right, rtol=1e-12)


def changed(array: np.ndarray, row: int, value: Any) -> np.ndarray:
    array = array.copy()
    array[row] = value
    return array


@pytest.mark.parametrize(
    ("targets", "message"),
    [
        (
            [changed(probabilities(), 3, [0.5, 0.2, 0.2])],
            r"train, row 3 \(from 0\): class probabilities 0.5, 0.2, 0.2 must be at least 0 and "
            r"sum to 1; their sum is 0.9",
        ),
        ([changed(probabilities(), 4, [1.5, -0.5, 0])], "row 4 .*1.5, -0.5, 0 must be at least 0"),
        ([changed(probabilities(), 4, np.nan)], r"row 4 .*nan, nan, nan must be at least 0"),
        (
            [changed(probabilities(), 4, [np.inf, -np.inf, 1])],
            r"row 4 .*inf, -inf, 1 must be at least 0 and sum to 1; their sum is nan",
        ),
        ([probabilities()[:, :1]], r"train: labels must be integers from 0, .*, not 0\.\d+"),
        ([np.zeros((COUNT, 2, 2))], r"or several labels \(N, L\), not of shape \(300, 2, 2\)"),
        (
            [probabilities(), changed(weights(), 5, -1)],
            r"row 5 \(from 0\): weight -1.0 is not allo",
        ),
        ([probabilities(), weights(9)], r"there are 300 samples, and weights of shape \(9,\)"),
        ([probabilities(), 0 * weights()], r"train: all weights are zero"),
    ],
)
def test_what_cannot_be_used_is_named(targets: list[np.ndarray], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        dataset_from_arrays("made", (points(), *targets), seed=0)


def test_a_column_that_holds_no_numbers_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x,cat,dog\n" + "1,much,0.8\n2,little,0.1\n" * 20)
    with pytest.raises(ValueError, match=r"column 'cat' \(option soft_labels\) holds string"):
        load_dataset("csv", seed=0, train=tmp_path / "a.csv", soft_labels=["cat", "dog"])
    with pytest.raises(ValueError, match=r"has no column 'heft' \(option weight\)"):
        load_dataset("csv", seed=0, train=tmp_path / "a.csv", label="cat", weight="heft")


def test_the_digest_tells_targets_apart() -> None:
    def digest(*targets: np.ndarray) -> str:
        return dataset_from_arrays("made", (points(), *targets), seed=0).digest()

    labels = np.arange(COUNT) % CLASSES
    one_hot = np.eye(CLASSES)[labels]
    digests = {
        digest(labels),
        digest(one_hot),
        digest(one_hot, weights()),
        digest(labels, weights()),
    }
    assert len(digests) == 4


@pytest.mark.parametrize(
    ("more", "error", "message"),
    [
        (
            {"soft": np.ones((4, 2))},
            TypeError,
            "soft must be a numpy array of float32",
        ),
        ({"soft": np.ones(4, np.float32)}, ValueError, r"soft must be \(N, K\) of 4 samples"),
        ({"weights": np.ones(3, np.float32)}, ValueError, r"weights must be \(N,\) of 4 samples"),
    ],
)
def test_a_split_is_checked(more: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        Split(np.zeros((4, 2), np.float32), np.zeros(4, np.int64), **more)
