"""What a column is, is decided by the training part; its values are those of the file."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from trainables.data import Dataset, TableRows, dataset_from_arrays, load_dataset
from trainables.export.raw_samples import read_raw

VERSIONS = ["3.10", "main", "007", "True"]


def csv(path: Path, header: str, lines: list[str]) -> Path:
    path.write_text("\n".join([header, *lines]) + "\n")
    return path


def load(train: Path, **options: Any) -> Dataset:
    return load_dataset("csv", seed=0, train=train, **options)


def versions(folder: Path) -> Path:
    lines = [f"{VERSIONS[i % 4]},{'ab'[i % 2]}" for i in range(40)]
    return csv(folder / "train.csv", "version,label", lines)


def noticed(dataset: Dataset) -> tuple[str, ...]:
    """Its remarks, except that of samples equal to training samples, of which these have many."""
    return tuple(each for each in dataset.remarks if "equal a training sample" not in each)


def levels_of(samples: Any, codes: np.ndarray) -> list[str]:
    return [("", *samples.levels[0])[int(code)] for code in codes[:, -1]]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_category_does_not_depend_on_the_other_rows(tmp_path: Path, version: str) -> None:
    train = versions(tmp_path)
    alone = csv(tmp_path / "alone.csv", "version,label", [f"{version},a"] * 6)
    dataset = load(train, test=alone)
    assert levels_of(dataset.samples, dataset.test.inputs) == [version] * 6
    assert not noticed(dataset)
    rows, _, notes = read_raw(dataset.samples, alone)
    assert levels_of(dataset.samples, rows) == [version] * 6
    assert not notes


def test_files_of_one_column_may_look_different(tmp_path: Path) -> None:
    csv(tmp_path / "part-0.csv", "version,label", ["3.10,1", "3.9,2"] * 10)
    csv(tmp_path / "part-1.csv", "version,label", ["main,4+", "3.10,1"] * 10)
    dataset = load(tmp_path / "part-*.csv")
    assert isinstance(dataset.samples, TableRows)
    assert dataset.samples.levels == (("3.10", "3.9", "main"),)
    assert dataset.classes == ("1", "2", "4+")


def test_named_categories_are_text(tmp_path: Path) -> None:
    train = csv(tmp_path / "a.csv", "zip,label", ["007,a", "010,b"] * 20)
    assert load(train).samples.numeric == ("zip",)
    assert load(train, categorical=["zip"]).samples.levels == (("007", "010"),)


@pytest.mark.parametrize(
    ("train", "test", "classes"),
    [
        (["1", "2", "3", "4+"], ["1", "3", "3", "2"], ("1", "2", "3", "4+")),
        (["True", "False", "maybe"], ["True", "False", "False"], ("False", "True", "maybe")),
        (["True", "False"], ["TRUE", "FALSE"], ("false", "true")),
        (["0", "1"], ["1.0", "0.0"], ("0", "1")),
        (["0.0", "1.0", "2.0"], ["2", "0", "1"], ("0", "1", "2")),
        (["007", "7", "x"], ["7", "007", "7"], ("007", "7", "x")),
    ],
)
def test_labels_of_a_test_split_are_read_as_in_training(
    tmp_path: Path, train: list[str], test: list[str], classes: tuple[str, ...]
) -> None:
    lines = [f"{i % 7},{train[i % len(train)]}" for i in range(60)]
    one = csv(tmp_path / "a.csv", "x,label", lines)
    other = csv(tmp_path / "b.csv", "x,label", [f"{i},{label}" for i, label in enumerate(test)])
    dataset = load(one, test=other)
    assert dataset.classes == classes
    found = [dataset.classes[label] for label in dataset.test.labels]
    numbers = {"1.0": "1", "0.0": "0", "TRUE": "true", "FALSE": "false"}
    assert found == [numbers.get(label, label) for label in test]


def test_whole_floats_are_labels_in_parquet(tmp_path: Path) -> None:
    labels = [0.0, 1.0] * 10
    pq.write_table(pa.table({"x": range(20), "label": labels}), tmp_path / "a.parquet")
    path = tmp_path / "a.parquet"
    dataset = load_dataset("parquet", seed=0, train=path, test=path)
    assert dataset.classes == ("0", "1")
    assert dataset.test.labels.tolist() == labels
    pq.write_table(pa.table({"x": [1, 2], "label": [0.0, float("nan")]}), path)
    with pytest.raises(ValueError, match=r"row 1 \(from 0\): there is no label"):
        load_dataset("parquet", seed=0, train=path)


@pytest.mark.parametrize("labels", [[0.0, 1.0], [[0], [1]], [[0.0], [1.0]], [[False], [True]]])
def test_columns_of_labels_and_whole_floats_in_arrays(labels: list[Any]) -> None:
    x = np.random.default_rng(0).random((40, 2))
    dataset = dataset_from_arrays("made", (x, np.array(labels * 20)), seed=0)
    assert dataset.num_classes == 2
    assert dataset.train.labels.ndim == 1


def test_unknown_levels_are_counted_and_named(tmp_path: Path) -> None:
    train = versions(tmp_path)
    new = csv(tmp_path / "new.csv", "version,label", ["3.10,a", "3.1,b", "3.1,a", "dev,b", ",a"])
    expected = (
        "3 of 5 rows have values of version that do not occur in training, and count as missing: "
        "'3.1', 'dev'"
    )
    dataset = load(train, test=new)
    assert noticed(dataset) == (f"test: {expected}",)
    assert read_raw(dataset.samples, new)[2] == ("missing values: version in 1 of 5 rows", expected)


def test_truth_values_are_one_level_in_every_spelling(tmp_path: Path) -> None:
    train = csv(tmp_path / "a.csv", "member,label", ["True,a", "False,b"] * 20)
    dataset = load(train, categorical=["member"])
    pq.write_table(pa.table({"member": [True, False]}), tmp_path / "new.parquet")
    rows, _, notes = read_raw(dataset.samples, tmp_path / "new.parquet")
    assert levels_of(dataset.samples, rows) == ["True", "False"]
    assert not notes


@pytest.mark.parametrize("name", ["", "Unnamed: 0", "__index_level_0__"])
def test_index_columns_are_no_features(tmp_path: Path, name: str) -> None:
    noise = np.random.default_rng(0).normal(size=60)
    lines = [f"{i},{x},{'ab'[i // 30]}" for i, x in enumerate(noise)]
    train = csv(tmp_path / "a.csv", f"{name},x,label", lines)
    dataset = load(train)
    assert isinstance(dataset.samples, TableRows)
    assert dataset.samples.numeric == ("x",)
    shown = repr(name) if name else "without a name"
    assert noticed(dataset) == (f"left out, as it numbers the rows: the column {shown}",)
    with pytest.raises(ValueError, match=f"features names '{name}', which numbers the rows"):
        load(train, features=["x", name])


def test_columns_that_give_the_position_are_named(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    shuffled, noise = draw.permutation(60), draw.normal(size=60)
    time = np.arange(60) + noise / 10
    lines = [
        f"{time[i]:.4f},{-i},{shuffled[i]},{noise[i]:.4f},{i // 20},{'ab'[i % 2]}"
        for i in range(60)
    ]
    dataset = load(csv(tmp_path / "a.csv", "time,falling,id,noise,group,label", lines))
    named = [name for name in dataset.samples.numeric if f"'{name}'" in "".join(dataset.remarks)]
    assert named == ["time", "falling", "id"]
    assert "almost numbers the rows" in dataset.remarks[0]
    assert dataset.remarks[0].endswith("exclude: [time] leaves it out")


@pytest.mark.parametrize(
    "values",
    [
        ['"1,5"', '"2,25"', "3"],
        ['"1,234"', "17", '"1,234,567.50"'],
        ["$12", "$1.50"],
        ["1.234.567", "2.000.000"],
        ["12%", "7.5%"],
    ],
)
def test_numbers_in_another_notation_are_refused(tmp_path: Path, values: list[str]) -> None:
    lines = [f"{values[i % len(values)]},{'ab'[i % 2]}" for i in range(60)]
    train = csv(tmp_path / "a.csv", "price,label", lines)
    with pytest.raises(ValueError, match="column 'price' has numbers that cannot be read") as said:
        load(train)
    assert repr(values[0].strip('"')) in str(said.value)
    assert load(train, categorical=["price"]).samples.categorical == ("price",)


def test_a_word_among_numbers_is_named(tmp_path: Path) -> None:
    lines = [f"{'low' if i % 20 == 0 else i % 7},{'ab'[i % 2]}" for i in range(60)]
    dataset = load(csv(tmp_path / "a.csv", "power,label", lines))
    assert dataset.samples.categorical == ("power",)
    assert noticed(dataset) == (
        "column 'power' is categorical because of 'low' in 3 of 60 rows; all its other values are "
        "numbers",
    )


def test_columns_without_information_are_named(tmp_path: Path) -> None:
    """A missing value among equal ones is information."""
    lines = [
        f"5,,x,{'' if i % 3 else 4},{i % 7},2024-05-0{1 + i % 9},{'ab'[i % 2]}" for i in range(60)
    ]
    train = csv(tmp_path / "a.csv", "same,none,word,partly,size,since,label", lines)
    assert noticed(load(train, dates=("since",))) == (
        "nothing can be learned from columns with one value, or none, in training; exclude leaves "
        "them out: 'same', 'none', 'word'",
    )


def test_dates_and_numbers_of_new_rows_are_checked(tmp_path: Path) -> None:
    days = ["2024-01-31,1", "2026-11-24,2.5", "2025-06-01,3", "2025-06-02,4"]
    lines = [f"{day},{'ab'[i // 4 % 2]}" for i, day in enumerate(days * 10)]
    train = csv(tmp_path / "a.csv", "day,x,label", lines)
    samples = load(train, dates=["day"]).samples
    new = csv(tmp_path / "new.csv", "day,x", ["11.01.2024,1", '2024-01-11,"1,5"', ",2"])
    with pytest.raises(ValueError, match="2 of 3 samples cannot be used") as said:
        read_raw(samples, new)
    assert "row 0 (from 0): day is '11.01.2024', not a date such as 2026-11-24" in str(said.value)
    assert "row 1 (from 0): x is '1,5', not a number" in str(said.value)
    rows, names, _ = read_raw(samples, new, on_bad_sample="skip")
    assert names == ["2"]
    assert np.isnan(rows[0, 1:]).all()
    later = csv(new, "day,x", ["2027-01-11,1", "2026-01-11,1", ",2"])
    last = "1 of 3 rows have a year of day after 2026, the last in training: the model extrapolates"
    assert read_raw(samples, later)[2][1:] == (last,)
    by_time = load(train, dates=["day"], time="day", test_size=10)
    assert "test: 10 of 10 rows have a year of day after 2025, the last" in by_time.remarks[-1]
    csv(new, "day,x", ["20240111,1"])
    with pytest.raises(ValueError, match=r"column 'day' \(option dates\) holds int64; allowed: da"):
        read_raw(samples, new)
    with pytest.raises(ValueError, match=r"row 0 \(from 0\): day is '11.01.2024', not a date"):
        load(csv(tmp_path / "b.csv", "day,label", ["11.01.2024,a", "2024-01-12,b"]), dates=["day"])


def test_one_label_of_each_sample_among_several_is_noticed() -> None:
    draw = np.random.default_rng(0)
    x, one_hot = draw.random((60, 2)), np.eye(3, dtype=bool)[draw.integers(0, 3, 60)]
    dataset = dataset_from_arrays("made", (x, one_hot), seed=0)
    assert dataset.remarks[0].startswith("each sample has exactly one label, while several are")
    one_hot[::4] = True
    assert not dataset_from_arrays("made", (x, one_hot), seed=0).remarks


def test_columns_of_truth_values_are_soft_labels(tmp_path: Path) -> None:
    lines = [f"{i % 7},{i % 2 == 0},{i % 2 == 1}" for i in range(40)]
    dataset = load(csv(tmp_path / "a.csv", "x,cat,dog", lines), soft_labels=["cat", "dog"])
    assert dataset.classes == ("cat", "dog")
    assert dataset.train.soft is not None
    np.testing.assert_array_equal(dataset.train.soft.argmax(1), dataset.train.labels)


def test_empty_words_are_no_labels(tmp_path: Path) -> None:
    path = csv(tmp_path / "a.csv", "x,label", [f"{i},{'ab'[i % 2]}" for i in range(30)])
    path.write_text(path.read_text() + '30,""\n31," "\n32,\n')
    with pytest.raises(ValueError, match="3 of 33 samples cannot be used") as caught:
        load(path)
    assert [line.partition(": ")[2] for line in str(caught.value).splitlines()[1:]] == [
        "there is no label"
    ] * 3
    assert load(path, on_bad_sample="skip").classes == ("a", "b")


def test_columns_of_dates_are_named_as_dates(tmp_path: Path) -> None:
    path = csv(tmp_path / "a.csv", "day,label", [f"2026-01-{i + 1:02},{i % 2}" for i in range(28)])
    with pytest.raises(ValueError, match=r"dates: \[day\] makes its year, month and weekday"):
        load(path)
    with pytest.raises(ValueError, match=r"no column 'dya' \(option time\) \(did you mean 'day'"):
        load(path, time="dya")


def test_if_all_samples_are_bad_skipping_is_not_advised(tmp_path: Path) -> None:
    lines = [f"{i + 1}.1.2026,{i},{i % 2}" for i in range(28)]
    path = csv(tmp_path / "a.csv", "day,x,label", lines)
    with pytest.raises(ValueError, match=r"^none of the 28 samples can be used:\n"):
        load(path, time="day", on_bad_sample="skip")
