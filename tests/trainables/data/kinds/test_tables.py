"""Tables from CSV and Parquet files."""

import datetime as dt
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from trainables.data import Arrays, Dataset, TableRows, load_dataset
from trainables.data.kinds.table import Columns
from trainables.export.calibrated import CalibratedClassifier
from trainables.export.raw_samples import read_raw

COUNT = 60


def columns() -> dict[str, list[Any]]:
    draw = np.random.default_rng(0)
    ages = draw.integers(20, 80, COUNT).tolist()
    return {
        "age": [None if index % 10 == 0 else age for index, age in enumerate(ages)],
        "income": draw.normal(3e9, 1e3, COUNT).tolist(),
        "city": [("Oslo", "Rome", None)[index % 3] for index in range(COUNT)],
        "member": [index % 2 == 0 for index in range(COUNT)],
        "outcome": [("ill", "well")[index % 2] for index in range(COUNT)],
    }


def write(path: Path, content: dict[str, list[Any]]) -> Path:
    table = pa.table(content)
    if path.suffix == ".parquet":
        pq.write_table(table, path)
        return path
    lines = [",".join(content)]
    rows = zip(*content.values(), strict=True)
    lines.extend(",".join("" if value is None else str(value) for value in row) for row in rows)
    path.write_text("\n".join(lines) + "\n")
    return path


def load(train: Path, **options: Any) -> Dataset:
    form = train.suffix.removeprefix(".")
    return load_dataset(form, seed=0, train=train, **{"label": "outcome", **options})


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_columns_are_numeric_or_categorical_by_what_they_hold(tmp_path: Path, suffix: str) -> None:
    path = write(tmp_path / f"a{suffix}", columns())
    dataset = load(path, test=path, validation=20)
    samples = dataset.samples
    assert isinstance(samples, TableRows)
    assert samples.numeric == ("age", "income", "member")
    assert samples.categorical == ("city",)
    assert samples.levels == (("Oslo", "Rome"),)
    assert samples.has_missing == (True, False, False)
    assert dataset.classes == ("ill", "well")
    rows = dataset.test.inputs
    assert rows.dtype == np.float32
    np.testing.assert_array_equal(
        rows[:, 3], np.arange(COUNT) % 3 - 3 * (np.arange(COUNT) % 3 == 2) + 1
    )
    np.testing.assert_array_equal(np.isnan(rows[:, 0]), np.arange(COUNT) % 10 == 0)


def test_numbers_are_standardised_on_the_training_part_only(tmp_path: Path) -> None:
    dataset = load(write(tmp_path / "a.csv", columns()), validation=20, test_size=20)
    prepared = dataset.samples.prepare(torch.tensor(dataset.train.inputs))
    assert prepared.shape == (20, *dataset.input_shape) == (20, 5)
    numbers, flags, city = prepared[:, :3], prepared[:, 3], prepared[:, 4]
    there = flags == 0
    # income is about 3e9 with a spread of 1e3, which float32 could not resolve
    torch.testing.assert_close(numbers[:, 1:].mean(0), torch.zeros(2), atol=1e-5, rtol=0)
    torch.testing.assert_close(numbers[:, 1:].std(0, correction=0), torch.ones(2))
    torch.testing.assert_close(numbers[there, 0].mean(), torch.zeros(()), atol=1e-5, rtol=0)
    assert (numbers[~there, 0] == 0).all() and (~there).any()
    assert city.unique().tolist() == [0, 1, 2]
    held = dataset.samples.prepare(torch.tensor(dataset.validation.inputs))
    assert held[:, 1].mean().abs() > 1e-3


@pytest.mark.parametrize("value", [0.1, 0.7, 1e-7, -123456.789])
def test_a_constant_decimal_column_becomes_zero(tmp_path: Path, value: float) -> None:
    test = write(tmp_path / "b.csv", {**columns(), "income": [value + 1e-9] * COUNT})
    train = write(tmp_path / "a.csv", {**columns(), "income": [value] * COUNT})
    dataset = load_dataset(
        "csv", seed=0, train=train, test=test, label="outcome", features=["income", "age"]
    )
    place = dataset.samples.numeric.index("income")
    for split in (dataset.train, dataset.validation, dataset.test):
        assert np.abs(split.inputs[:, place]).max() < 1e-8


def test_constants_are_on_the_device_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = load(write(tmp_path / "a.csv", columns()))
    arrays = Arrays.measured(np.random.default_rng(0).random((9, 2, 3), np.float32))
    batches = torch.tensor(table.train.inputs), torch.ones(4, 2, 3)
    first = [kind.prepare(b) for kind, b in zip((table.samples, arrays), batches, strict=True)]
    monkeypatch.setattr(torch, "tensor", None)  # neither creates another tensor
    again = [kind.prepare(b) for kind, b in zip((table.samples, arrays), batches, strict=True)]
    assert all(torch.equal(one, other) for one, other in zip(first, again, strict=True))


def test_an_unknown_level_equals_a_missing_one(tmp_path: Path) -> None:
    train = write(tmp_path / "a.csv", columns())
    test = write(tmp_path / "b.csv", columns() | {"city": ["Oslo", "Paris"] * (COUNT // 2)})
    dataset = load(train, test=test)
    np.testing.assert_array_equal(dataset.test.inputs[:, 3], [1, 0] * (COUNT // 2))


def test_features_and_categories_are_named(tmp_path: Path) -> None:
    content = columns() | {"zip": [100 + index % 4 for index in range(COUNT)]}
    path = write(tmp_path / "a.csv", content)
    dataset = load(path, features=["zip", "income"], categorical=["zip"])
    assert isinstance(dataset.samples, TableRows)
    assert (dataset.samples.numeric, dataset.samples.categorical) == (("income",), ("zip",))
    assert dataset.samples.levels == (("100", "101", "102", "103"),)


def test_files_of_a_pattern_are_one_table(tmp_path: Path) -> None:
    for part in range(3):
        rows = slice(20 * part, 20 * part + 20)
        write(tmp_path / f"part-{part}.csv", {key: value[rows] for key, value in columns().items()})
    (tmp_path / "other.csv").write_text("nothing\n1\n")
    whole = write(tmp_path / "whole.parquet", columns())
    pattern = load_dataset("csv", seed=0, train=tmp_path / "part-*.csv", label="outcome")
    np.testing.assert_allclose(pattern.train.inputs, load(whole).train.inputs, rtol=1e-5)
    uri = f"{tmp_path.as_uri()}/part-[0-9].csv"
    again = load_dataset("csv", seed=0, train=uri, label="outcome")
    np.testing.assert_array_equal(again.train.inputs, pattern.train.inputs)


@pytest.mark.parametrize(
    ("changes", "options", "message"),
    [
        ({}, {"label": "outcom"}, r"has no column 'outcom' \(option label\) \(did you mean 'outc"),
        ({}, {"features": ["agee"]}, r"no column 'agee' \(option features\) \(did you mean 'age'"),
        ({}, {"features": ["outcome"]}, "without those of labels"),
        ({}, {"categorical": ["zip"]}, "categorical names 'zip', which is none of the features"),
        ({}, {"image_size": 8}, "image_size belongs to images, while the rows are read as a table"),
        ({}, {"max_tokens": 8}, "max_tokens belongs to texts, while the rows are read as a table"),
        ({}, {"text": "city", "image": "city"}, "text and image are given; give one of them"),
        ({"outcome": [0.5, 1.5] * 30}, {}, "labels must be integers, words, or true and false"),
        ({"outcome": [1] * COUNT}, {}, "all training labels are 1; two classes are needed"),
        ({"outcome": ["a"] * 59 + ["b"]}, {}, "class 'b' has only one sample"),
        ({"income": [1.0] * 59 + [float("inf")]}, {}, r"row 59 \(from 0\): income is infinite"),
        ({"city": ["2020-01-01"] * COUNT}, {}, "column 'city' holds date.*; features must be"),
        (
            {"city": [f"town {i}" for i in range(COUNT)], "outcome": ["a", "b"] * 30},
            {"test_size": 0.9},
            "so that each class is in all parts",
        ),
    ],
)
def test_bad_tables(
    tmp_path: Path, changes: dict[str, Any], options: dict[str, Any], message: str
) -> None:
    path = write(tmp_path / "a.csv", columns() | changes)
    with pytest.raises(ValueError, match=message):
        load(path, **options)


def test_texts_are_rejected_as_categories(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    lines = [f"a text of number {index},{index % 2}" for index in range(300)]
    path.write_text("\n".join(["content,label", *lines]))
    with pytest.raises(ValueError, match=r"300 different values in 300 rows, .* set text: content"):
        load(path, label="label")


def test_train_and_test_must_agree(tmp_path: Path) -> None:
    train = write(tmp_path / "a.csv", columns())
    test = write(tmp_path / "b.csv", columns() | {"age": ["old"] * COUNT})
    with pytest.raises(ValueError, match=r"b.csv, row 0 \(from 0\): age is 'old', not a number"):
        load(train, test=test)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a,label\n1,x\n2,y,3\n", r"row 1 \(from 0\): 3 values, while the header names 2 columns"),
        ("", "not a readable CSV file"),
        ("a,label\n", "has no rows"),
        (
            "a,a,label\n1,2,x\n",
            "has 2 columns called 'a'; rename all but one\n.*exclude: ",
        ),
        ("1.5,2.5\n1.0,2.0\n", "a.csv has no header: its first line holds values"),
        ("a,label\n9007199254740993,x\n1,y\n", r"are not exact .*exclude: \[a\]"),
        ("a,label\n1,tea\n2,caf\udce9\n", r"row 1 \(from 0\): label is not in UTF-8: b'caf"),
    ],
)
def test_files_that_cannot_be_read(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "a.csv").write_text(content, errors="surrogateescape")
    with pytest.raises(ValueError, match=message):
        load(tmp_path / "a.csv", label="label")


def test_a_truncated_parquet_file_is_named(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", columns())
    content = bytearray(path.read_bytes())
    content[60:160] = bytes(100)
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"a.parquet: column '\w+' .*"):
        load(path)


def test_columns_are_excluded_and_bad_ones_reported_together(tmp_path: Path) -> None:
    lines = [f"{i},note {i},{i % 5},other {i},{i % 2}" for i in range(300)]
    path = tmp_path / "a.csv"
    path.write_text("\n".join(["id,note,x,remark,label", *lines]))
    with pytest.raises(ValueError, match="too many for categories") as caught:
        load_dataset("csv", seed=0, train=path)
    message = str(caught.value)
    assert "column 'note'" in message
    assert "column 'remark'" in message
    assert message.endswith("exclude: [note, remark]")
    dataset = load_dataset("csv", seed=0, train=path, exclude=["id", "note", "remark"])
    assert isinstance(dataset.samples, TableRows)
    assert dataset.samples.numeric == ("x",)
    with pytest.raises(ValueError, match="exclude names y, no column of train="):
        load_dataset("csv", seed=0, train=path, exclude=["y"])
    with pytest.raises(ValueError, match="features and exclude are given"):
        load_dataset("csv", seed=0, train=path, exclude=["id"], features=["x"])


def test_dates_become_their_year_month_and_weekday(tmp_path: Path) -> None:
    days = ["2024-01-31", "2026-11-24 09:30", "", "2025-6-1"] * 5
    rows = [f"{day},{i},{'ab'[i % 2]}" for i, day in enumerate(days)]
    path = tmp_path / "dated.csv"
    path.write_text("day,x,label\n" + "\n".join(rows))
    samples = load_dataset("csv", seed=0, train=path, dates=["day"]).samples
    assert isinstance(samples, TableRows)
    assert samples.numeric == ("x", "day.year", "day.month", "day.weekday")
    parts = pa.table(
        {"x": [0.0] * 2, "day.year": [2026.0, None], "day.month": [11.0, None]}
        | {"day.weekday": [1.0, None]}  # a Tuesday
    )
    expected = samples.encode(Columns(parts))
    classifier = CalibratedClassifier(torch.nn.Identity(), samples, 1.0, ("a", "b"))
    for days in (["2026-11-24", None], [dt.date(2026, 11, 24), None]):
        found = classifier.encode(pa.table({"x": [0.0, 0.0], "day": days}))
        np.testing.assert_array_equal(found, expected)
    new = tmp_path / "new.csv"
    new.write_text("x,day\n0,2026-11-24\n0,\n")
    np.testing.assert_array_equal(read_raw(samples, new)[0], expected)
    with pytest.raises(
        ValueError, match=r"column 'x' \(option dates\) holds int64; allowed: dates"
    ):
        load_dataset("csv", seed=0, train=path, dates=["x"])
