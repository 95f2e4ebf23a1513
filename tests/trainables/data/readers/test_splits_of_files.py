"""Validation files, and columns that divide the rows into splits."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trainables.data import Dataset, Split, TableRows, load_dataset

COUNT = 120
ROWS = np.arange(COUNT)


def write(folder: Path, rows: np.ndarray = ROWS, name: str = "a", **columns: Any) -> Path:
    """A CSV file with a feature ``row`` that tells rows apart, a label, and other columns."""
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
