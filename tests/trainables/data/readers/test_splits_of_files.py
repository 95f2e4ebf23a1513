"""Validation files, and columns that divide the rows into splits."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from trainables.data import Dataset, Split, TableRows, load_dataset
from trainables.data.readers.arrays import load_npz

COUNT = 120
ROWS = np.arange(COUNT)


def write(folder: Path, rows: np.ndarray = ROWS, name: str = "a", **columns: Any) -> Path:
    """A CSV file with a feature ``row`` that identifies rows, a label, and other columns."""
    labels = np.array(["no", "yes"])[rows % 2]
    columns = {"row": rows * 2.5, "label": labels, **columns}
    lines = [",".join(map(str, values)) for values in zip(*columns.values(), strict=True)]
    path = folder / f"{name}.csv"
    path.write_text("\n".join([",".join(columns), *lines]) + "\n")
    return path


def load(path: Path, **options: Any) -> Dataset:
    return load_dataset("csv", seed=options.pop("seed", 0), train=path, **options)


def rows_of(data: Dataset) -> tuple[list[int], list[int], list[int]]:
    samples = data.samples
    assert isinstance(samples, TableRows) and samples.numeric[0] == "row"

    def rows(split: Split) -> list[int]:
        values = split.inputs[:, 0] * samples.std[0] + samples.mean[0]
        return sorted(np.rint(values / 2.5).astype(int).tolist())

    return rows(data.train), rows(data.validation), rows(data.test)


@pytest.mark.parametrize("tested", [False, True])
def test_validation_files(tmp_path: Path, tested: bool) -> None:
    train, held = write(tmp_path), write(tmp_path, ROWS[7:27] + 500, "held")
    options = {"test": write(tmp_path, ROWS[:9] + 900, "test")} if tested else {}
    parts = rows_of(load(train, validation=str(held), **options))
    assert parts[1] == [*range(507, 527)]
    if tested:
        assert (parts[0], parts[2]) == ([*range(COUNT)], [*range(900, 909)])
    else:
        assert sorted(parts[0] + parts[2]) == [*range(COUNT)]
        assert len(parts[2]) == 24


def test_validation_arrays(tmp_path: Path) -> None:
    x, y = np.random.default_rng(0).normal(size=(COUNT, 4)), ROWS % 3
    for name, rows in (("train", ROWS), ("held", ROWS[:30])):
        np.savez(tmp_path / f"{name}.npz", x=x[rows], y=y[rows])
        np.save(tmp_path / f"{name}-x.npy", x[rows])
        np.save(tmp_path / f"{name}-y.npy", y[rows])
    path = {name: str(tmp_path / name) for name in ("train", "held")}
    arrays = {
        "train": f"{path['train']}-x.npy",
        "train_labels": f"{path['train']}-y.npy",
        "validation": f"{path['held']}-x.npy",
    }
    labelled = {**arrays, "validation_labels": f"{path['held']}-y.npy"}
    zipped = {key: f"{path[of]}.npz" for key, of in (("train", "train"), ("validation", "held"))}
    for form, options in (("npy", labelled), ("npz", zipped)):
        dataset = load_dataset(form, seed=0, **options)
        np.testing.assert_array_equal(dataset.validation.inputs, x[:30].astype(np.float32))
        np.testing.assert_array_equal(dataset.validation.labels, y[:30])
        assert len(dataset.train) + len(dataset.test) == COUNT
    with pytest.raises(ValueError, match="validation, a path, and validation_labels are given"):
        load_dataset("npy", seed=0, **arrays)


def test_validation_files_that_do_not_fit(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"validation=.*none\.csv does not exist"):
        load(write(tmp_path), validation=str(tmp_path / "none.csv"))
    other = write(tmp_path, name="b", label=["maybe"] * COUNT)
    with pytest.raises(ValueError, match=r"validation=.*b\.csv, row 0 .*label maybe does not occ"):
        load(write(tmp_path), validation=str(other))


WORDS = np.array(["Train", "training", "val", "test", "train"])[ROWS % 5]


@pytest.mark.parametrize(
    ("name", "options"), [("split", {}), ("part", {"split": "part"}), ("split", {"split": "split"})]
)
def test_a_column_names_the_splits(tmp_path: Path, name: str, options: dict[str, str]) -> None:
    dataset = load(write(tmp_path, **{name: WORDS}), **options)
    assert rows_of(dataset) == (
        [row for row in ROWS if row % 5 not in (2, 3)],
        [*range(2, COUNT, 5)],
        [*range(3, COUNT, 5)],
    )
    sizes = "72 train, 24 validation, 24 test"
    assert dataset.remarks[0] == f"column {name!r} divides the rows into splits: {sizes}"


@pytest.mark.parametrize("named", ["validation", "test"])
def test_a_split_without_a_name_is_held_out_of_training(tmp_path: Path, named: str) -> None:
    words = np.where(ROWS < 30, named, "train")
    train, validation, test = rows_of(load(write(tmp_path, split=words)))
    given, drawn = (validation, test) if named == "validation" else (test, validation)
    assert given == [*range(30)]
    assert len(drawn) == (18 if named == "validation" else 9)
    assert sorted(train + drawn) == [*range(30, COUNT)]


@pytest.mark.parametrize("words", ["train", "red"])
def test_another_column_called_split_is_a_feature(tmp_path: Path, words: str) -> None:
    column = np.array([words, "blue"])[ROWS % 2]
    assert load(write(tmp_path, split=column)).samples.categorical == ("split",)


def test_groups_stay_together(tmp_path: Path) -> None:
    sizes = np.random.default_rng(0).geometric(0.2, COUNT)
    groups = np.repeat(np.arange(COUNT), sizes)[:COUNT]
    path = write(tmp_path, ROWS, customer=[f"c{group}" for group in groups])
    found = set()
    for seed in range(5):
        dataset = load(path, group="customer", test_size=0.25, validation=0.2, seed=seed)
        parts = rows_of(dataset)
        assert sorted(parts[0] + parts[1] + parts[2]) == [*range(COUNT)]
        of_parts = [set(groups[part]) for part in parts]
        assert not any(a & b for a, b in zip(of_parts, of_parts[1:] + of_parts[:1], strict=True))
        assert (len(parts[2]), len(parts[1])) == (
            pytest.approx(30, abs=3),
            pytest.approx(18, abs=3),
        )
        assert dataset.samples.numeric == ("row",)  # the group is no feature
        found.add((tuple(parts[1]), tuple(parts[2])))
    assert len({held for held, _ in found}) > 1
    assert len({test for _, test in found}) == 1
    assert "no group of column 'customer'" in dataset.remarks[0]
    for split in (dataset.validation, dataset.test):
        assert len(split) == len(split.groups) > split.num_groups
    sizes = f"{dataset.validation.num_groups} in the validation split"
    remark = dataset.remarks[-1]
    assert f"intervals and verdicts take groups as the unit: {sizes}" in remark
    assert "with fewer than 10 there are no intervals" in remark


def test_a_rare_class_of_three_groups_is_in_each_split(tmp_path: Path) -> None:
    groups = ROWS // 4
    labels = np.where(np.isin(groups, (3, 11, 27)), "rare", np.array(["no", "yes"])[ROWS % 2])
    dataset = load(write(tmp_path, label=labels, site=groups), group="site")
    for split in (dataset.train, dataset.validation, dataset.test):
        assert (split.labels == dataset.classes.index("rare")).sum() == 4


def test_the_latest_rows_are_the_test_split(tmp_path: Path) -> None:
    order = np.random.default_rng(0).permutation(COUNT)
    days = np.datetime64("2026-01-01") + order // 2
    forms = {
        "date": days.astype(str),
        "stamp": [f"{day} 09:{row % 60:02d}:00" for day, row in zip(days, order, strict=True)],
        "nano": [f"{day} 09:00:00.{row % 2 + 1:09d}" for day, row in zip(days, order, strict=True)],
        "number": order // 2 * 0.5,
    }
    for name, column in forms.items():
        dataset = load(write(tmp_path, **{name: column}), time=name, test_size=0.25)
        train, validation, test = rows_of(dataset)
        assert (len(validation), len(test)) == (pytest.approx(9, abs=1), 30), name
        times = order if name in ("stamp", "nano") else order // 2
        last = [times[part] for part in (train, validation, test)]
        assert last[0].max() < last[1].min() <= last[1].max() < last[2].min()
        assert dataset.samples.numeric == ("row",)
    dated = load(write(tmp_path, date=forms["date"]), time="date", dates=["date"])
    assert dated.samples.numeric == ("row", "date.year", "date.month", "date.weekday")


def test_the_latest_rows_without_their_groups_before(tmp_path: Path) -> None:
    customers = np.where(ROWS % 12 == 0, ROWS % 5, 10 + ROWS // 4)
    path = write(tmp_path, month=ROWS // 4, customer=customers)
    dataset = load(path, time="month", group="customer", test_size=0.1, validation=0.1)
    parts = rows_of(dataset)
    assert parts[2] == [*range(108, COUNT)]
    of_parts = [set(customers[part]) for part in parts]
    assert not any(a & b for a, b in zip(of_parts, of_parts[1:] + of_parts[:1], strict=True))
    assert max(parts[0]) < min(parts[1]) and max(parts[1]) < min(parts[2])
    lost = COUNT - sum(map(len, parts))
    assert lost and f"{lost} rows are in no split, because a later split has their group" in (
        dataset.remarks
    )
    assert dataset.test.num_groups == len(of_parts[2])
    panel = write(tmp_path, month=ROWS // 4, customer=ROWS % 4)
    with pytest.raises(ValueError, match=r"group=customer, time=month: test_size=0.2 leaves no sa"):
        load(panel, time="month", group="customer")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"split": "shop"}, r"row 0 .*: shop is '0', which is no split; allowed: train, training"),
        ({"split": "shops"}, r"has no column 'shops' \(option split\) \(did you mean 'shop'"),
        ({"split": "one"}, "split=one names no training samples"),
        ({"group": "shop", "split": "word"}, "split and group are given; give one of them"),
        (
            {"group": "equal_rows", "time": "row"},
            "group and time are given; give one of them",
        ),
        ({"group": "two"}, "group=two: class 'no' is in 2 of 2 groups; 3 are needed"),
        ({"group": "label"}, "group=label: class 'no' is in 1 of 2 groups; 3 are needed"),
        (
            {"group": "shop", "features": ["row", "shop"]},
            "without those of labels, weights, groups",
        ),
        ({"group": "shop", "validation": 500}, "validation=500 holds out 500 of 9"),
        ({"group": "gaps"}, r"row 3 .*: there is no group \(gaps is missing\)"),
        ({"time": "gaps"}, r"row 3 .*: there is no time \(gaps is missing\)"),
        ({"time": "word"}, r"word is 'a', not a date such as"),
        (
            {"time": "sorted"},
            "time=sorted: test_size=0.6 leaves no sample of class 'yes' for train",
        ),
    ],
)
def test_columns_that_cannot_divide(tmp_path: Path, options: Any, message: str) -> None:
    columns = {
        "shop": ROWS // 8,
        "one": ["test"] * COUNT,
        "two": ROWS // 60,
        "gaps": ["" if row == 3 else row for row in ROWS],
        "word": ["a"] * COUNT,
        "sorted": ROWS % 2 * 1000 + ROWS,
    }
    if "sorted" in options.values():
        options = {**options, "test_size": 0.6}
    with pytest.raises(ValueError, match=message):
        load(write(tmp_path, **columns), **options)


def test_files_of_their_own_share_no_group(tmp_path: Path) -> None:
    train, test = write(tmp_path, shop=ROWS // 8), write(tmp_path, name="test", shop=ROWS // 8 + 9)
    with pytest.raises(
        ValueError, match=r"group=shop: 6 groups, such as '10', are in train=.*a\.c"
    ):
        load(train, test=test, group="shop")
    with pytest.raises(ValueError, match="split=shop and the path test are given"):
        load(train, test=test, split="shop")
    own = write(tmp_path, name="own", shop=ROWS // 8 + 90)
    assert len(load(train, test=own, group="shop").test) == COUNT
    with pytest.raises(ValueError, match=r"are in test=.*own.*csv and validation=.*own.*csv;"):
        load(train, test=own, validation=own, group="shop")
    gaps = write(tmp_path, name="gaps", shop=["" if n == 2 else n + 90 for n in ROWS.tolist()])
    with pytest.raises(ValueError, match=r"row 2 .*: there is no group \(shop is missing\)"):
        load(train, test=gaps, group="shop")


@pytest.mark.parametrize("option", ["test", "validation"])
@pytest.mark.parametrize("kind", ["table", "texts", "pictures", "arrays"])
def test_each_file_needs_groups(tmp_path: Path, kind: str, option: str) -> None:
    columns: dict[str, Any] = {"said": [f"word {n}" for n in ROWS], "picture": ["a.png"] * COUNT}
    Image.new("L", (4, 4)).save(tmp_path / "a.png")
    train, other = write(tmp_path, **columns, shop=ROWS // 8), write(tmp_path, name="b", **columns)
    arrays = {"x": np.stack([ROWS, ROWS], 1).astype(np.float32), "y": ROWS % 2}
    for name, more in (("train", {"shop": ROWS // 8}), ("b", {})):
        np.savez(tmp_path / f"{name}.npz", **arrays, **more)
    name, what, options = {
        "table": ("csv", "column", {"train": train, option: other}),
        "texts": ("csv", "column", {"train": train, option: other, "text": "said"}),
        "pictures": ("csv", "column", {"train": train, option: other, "image": "picture"}),
        "arrays": ("npz", "array", {"train": tmp_path / "train.npz", option: tmp_path / "b.npz"}),
    }[kind]
    message = rf"{option}=.*b\..* has no {what} 'shop' \(option group\).*give each another name"
    with pytest.raises(ValueError, match=message):
        load_dataset(name, seed=0, group="shop", **options)


def test_arrays_without_a_group_are_bad_samples(tmp_path: Path) -> None:
    groups = np.where(ROWS == 3, "", (ROWS // 4).astype(str))
    rows = np.stack([ROWS, ROWS], 1).astype(np.float32)
    np.savez(tmp_path / "data.npz", x=rows, y=ROWS % 2, customer=groups)
    options: dict[str, Any] = {"seed": 0, "train": tmp_path / "data.npz", "group": "customer"}
    with pytest.raises(ValueError, match=r"there is no group \(customer is missing\)"):
        load_npz(**options)
    dataset = load_npz(**options, on_bad_sample="skip")
    splits = (dataset.train, dataset.validation, dataset.test)
    assert sum(len(split) for split in splits) == COUNT - 1
