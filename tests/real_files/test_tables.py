"""Tables as other people's software writes them, each with the values that were saved.

All files in ``tables`` hold the same twelve rows. pandas.sample has shuffled those of
``pandas_index.parquet``.
"""

from pathlib import Path
from typing import Final

import numpy as np
import pytest

from trainables.data import Dataset, TableRows, load_dataset
from trainables.export.raw_samples import read_raw

FOLDER: Final = Path(__file__).parent / "tables"
SIZE: Final = [np.nan if i == 3 else 5 * i % 12 / 2 for i in range(12)]
VERSION: Final = ["3.10", "3.1", "007", "main"] * 3
MEMBER: Final = [1.0, 0.0, 0.0] * 4
GRADE: Final = ["4+", "1", "2"] * 4
SHUFFLED: Final = [6, 11, 4, 10, 2, 8, 1, 7, 9, 3, 0, 5]

FILES: Final = {
    "pandas.csv": range(12),  # pandas 3.1.1, to_csv(index=False)
    "pandas_index.csv": range(12),  # pandas 3.1.1, to_csv(): a first column without a name
    "pandas_index.parquet": SHUFFLED,  # pandas 3.1.1, to_parquet(): __index_level_0__
    "pandas_types.parquet": range(12),  # pandas 3.1.1, dtypes category, boolean and Float64
    "r.csv": range(12),  # R 4.2.2, write.csv(): row names, TRUE, NA, a factor
    "r_quote.csv": range(12),  # R 4.2.2, write.csv(row.names = FALSE, quote = FALSE)
    "r_csv2.csv": range(12),  # R 4.2.2, write.csv2(): semicolons, decimal commas
    "polars.csv": range(12),  # Polars 2.1.0, write_csv(): true
    "polars.parquet": range(12),  # Polars 2.1.0, write_parquet(): Categorical and Enum
    "duckdb.csv": range(12),  # DuckDB 2.0.1, COPY TO
    "duckdb.parquet": range(12),  # DuckDB 2.0.1, COPY TO: DECIMAL and ENUM
}


def load(name: str) -> Dataset:
    path = FOLDER / name
    form = path.suffix.removeprefix(".")
    return load_dataset(form, seed=0, train=path, test=path, label="grade", validation=3)


def check_rows(samples: TableRows, rows: np.ndarray, order: list[int]) -> None:
    """Rows that are decoded are those that were saved."""
    assert (samples.numeric, samples.categorical) == (("size", "member"), ("version",))
    numbers = rows[:, :2] * samples.std + samples.mean
    saved = np.array([SIZE, MEMBER]).T[order]
    np.testing.assert_allclose(numbers, saved, atol=1e-6)
    levels = np.array(["", *samples.levels[0]])[rows[:, 2].astype(int)]
    unseen = levels == ""  # in the validation split only
    assert (levels[~unseen] == np.array(VERSION)[order][~unseen]).all()
    assert not unseen.any() or len(samples.levels[0]) < 4


@pytest.mark.parametrize(("name", "order"), FILES.items())
def test_training_data(name: str, order: list[int]) -> None:
    dataset = load(name)
    assert isinstance(dataset.samples, TableRows)
    assert dataset.classes == ("1", "2", "4+")
    assert [dataset.classes[label] for label in dataset.test.labels] == np.take(
        GRADE, order
    ).tolist()
    check_rows(dataset.samples, dataset.test.rows(slice(12)), list(order))
    others = [each for each in dataset.remarks if "equal a training sample" not in each]
    assert len(others) == ("index" in name or name in ("r.csv", "r_csv2.csv"))


@pytest.mark.parametrize(("name", "order"), FILES.items())
def test_new_rows_from_another_writer(name: str, order: list[int]) -> None:
    samples = load("pandas.csv").samples
    assert isinstance(samples, TableRows)
    rows, _, notes = read_raw(samples, FOLDER / name)
    assert not notes
    check_rows(samples, rows, list(order))
