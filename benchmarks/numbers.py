"""Ways to present the numbers of a table to `table_mlp`, on real tables, and gradient boosting.

    python -m benchmarks.numbers record FILE.jsonl TABLES...
    python -m benchmarks.numbers show FILE.jsonl

TABLES are Parquet files with a column ``label``. `record` trains the default network on random
splits with at most 3,000 training rows, for the number of epochs that a pilot of each way finds,
and continues where it was interrupted. `show` prints the test NLL after a temperature: of each
table, against the first way, a mean over splits; and the mean over tables.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch

from benchmarks.handed_out import TEMPERATURE, Run, dataset_of, epochs_of_pilot, scaled, train
from trainables.data.core.base import Dataset
from trainables.data.kinds.table import normal_scores
from trainables.trials.reference_models import reference_models

Numbers = npt.NDArray[np.float64]
Way = Callable[[Numbers], Callable[[Numbers], Numbers]]
"""From the standardised numbers of a column in training to a map of numbers."""


def smoothly_clipped(numbers: Numbers) -> Numbers:
    """As in RealMLP (D. Holzmüller et al., Better by Default, 2024), between -3 and 3."""
    return numbers / np.sqrt(1 + np.square(numbers / 3))


def robust(column: Numbers) -> Callable[[Numbers], Numbers]:
    """Median and quartiles, then smooth clipping, as in RealMLP."""
    low, middle, high = np.quantile(column, [0.25, 0.5, 0.75])
    width = high - low or np.ptp(column) / 2 or 1
    return lambda numbers: smoothly_clipped((numbers - middle) / width)


def noisy_quantiles(column: Numbers) -> Callable[[Numbers], Numbers]:
    """Quantiles of the column with noise, as in TabM (Y. Gorishniy et al., 2025)."""
    from sklearn.preprocessing import QuantileTransformer

    fitted = QuantileTransformer(
        n_quantiles=max(min(len(column) // 30, 1000), 10), output_distribution="normal"
    ).fit((column + np.random.default_rng(0).normal(0, 1e-5, len(column)))[:, None])
    return lambda numbers: fitted.transform(numbers[:, None])[:, 0]


def scores(column: Numbers) -> Callable[[Numbers], Numbers]:
    """Of all columns, not only of skewed ones."""
    points = np.array(normal_scores(column))
    return lambda numbers: np.interp(numbers, points[:, 0], points[:, 1])


WAYS: Mapping[str, Way | None] = {
    "z_scores": lambda _: lambda numbers: numbers,
    "normal scores of skewed columns": None,  # as table_mlp reads them by default
    "normal scores": scores,
    "quantiles with noise": noisy_quantiles,
    "robust, smooth clip": robust,
}
BOOSTING = "gradient boosting"


def presented(dataset: Dataset, way: Way) -> Dataset:
    """The dataset with mapped numbers; missing ones stay."""
    splits = {name: getattr(dataset, name) for name in ("train", "validation", "test")}
    rows = {name: np.array(split.inputs) for name, split in splits.items()}
    for place in range(len(dataset.samples.numeric)):  # type: ignore[attr-defined]
        column = rows["train"][:, place].astype(float)
        mapped = way(column[~np.isnan(column)])
        for each in rows.values():
            known = ~np.isnan(each[:, place])
            each[known, place] = mapped(each[known, place].astype(float))
    found = {name: replace(split, inputs=rows[name]) for name, split in splits.items()}
    return replace(dataset, **found)


def of_network(run: Run, dataset: Dataset, way: Way | None) -> tuple[float, int]:
    """The test NLL, and the number of epochs."""
    options = {} if way is None else {"numbers": "z_scores"}
    dataset = dataset if way is None else presented(dataset, way)
    found = train(run, dataset, "table_mlp", options)
    epochs = epochs_of_pilot(found)
    if epochs < run.epochs:
        found = train(replace(run, epochs=epochs), dataset, "table_mlp", options)
    validation, test = (found.validation[-1], found.labels), (found.test[-1], found.test_labels)
    return scaled(validation, test, TEMPERATURE), epochs


def of_boosting(dataset: Dataset) -> tuple[float, int]:
    """The test NLL; there are no epochs."""
    (found,) = (each for each in reference_models(dataset) if each.name == BOOSTING)
    return scaled(found.validation.tensors(), found.test.tensors(), TEMPERATURE), 0


def recorded(file: Path) -> list[dict[str, Any]]:
    """The finished trainings."""
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def record(file: Path, tables: Sequence[Path], splits: int, ways: Sequence[str]) -> None:
    """Append a line for each training."""
    for split, table in product(range(splits), tables):
        place = {"table": table.stem, "split": split}
        known = {row["way"] for row in recorded(file) if row.items() >= place.items()}
        if not (left := [way for way in ways if way not in known]):
            continue
        dataset = dataset_of(table, split, trained=3000, validated=1000)
        for way in left:
            nll, epochs = (
                of_boosting(dataset)
                if way == BOOSTING
                else of_network(Run(table.stem, split), dataset, WAYS[way])
            )
            row = {**place, "way": way, "nll": nll, "epochs": epochs}
            with file.open("a") as lines:
                lines.write(json.dumps(row) + "\n")
            print(row, flush=True)


def show(file: Path) -> None:
    """Print the tables."""
    rows = pd.DataFrame(recorded(file))
    nll = rows.pivot_table("nll", ["table", "split"], "way")[[*WAYS, BOOSTING]]
    changes = (nll.div(nll["z_scores"], axis=0) - 1).groupby("table").mean()
    print(f"| table | splits | {' | '.join(nll.columns)} |\n{'| --- ' * (2 + nll.shape[1])}|")
    for table, each in changes.iterrows():
        own = nll.loc[table]
        shown = ["–" if np.isnan(change) else f"{change:+.1%}" for change in each.iloc[1:]]
        columns = [f"{own['z_scores'].mean():.4f}", *shown]
        print(f"| {table} | {len(own)} | {' | '.join(columns)} |")
    print("\n| numbers | NLL | better / worse | worst |\n| --- | --- | --- | --- |")
    for way, each in changes.items():
        better, worse = (each < -0.001).sum(), (each > 0.001).sum()
        print(f"| {way} | {each.mean():+.1%} | {better} / {worse} | {each.max():+.1%} |")


def main() -> None:
    """Record, or print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("action", choices=["record", "show"])
    parser.add_argument("file", type=Path)
    parser.add_argument("tables", nargs="*", type=Path)
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--ways", nargs="+", default=[*WAYS, BOOSTING], choices=[*WAYS, BOOSTING])
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.action == "record":
        record(arguments.file, arguments.tables, arguments.splits, arguments.ways)
    else:
        show(arguments.file)


if __name__ == "__main__":
    main()
