"""What a sweep hands out, on real tables: scaling, epoch, number of seeds, inverse maps, pilot.

    python -m benchmarks.handed_out record FOLDER TABLES...
    python -m benchmarks.handed_out show FOLDER

TABLES are Parquet files with a column ``label``; a single column of strings is text. `record`
trains perceptrons (2 x 128 units; for text the default) with the default recipe on random splits
that keep equal rows together, and keeps the logits of each epoch in FOLDER. It continues where it
was interrupted. `show` replays the decisions. Columns are the relative difference of the test NLL
from the first row, a mean over datasets of the means over splits and seeds; and the number of
datasets on which it is better and worse by more than .1 %.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from trainables.contract.config import TrainingConfig
from trainables.data import load_dataset
from trainables.data.core.base import Dataset
from trainables.engine.training import Trainer
from trainables.losses import make_loss
from trainables.models import model_for
from trainables.models.recipes import batch_size_for, usual_recipe

CPU = torch.device("cpu")
MOST_TRAINED = 5000
MOST_VALIDATED = 1500
LOSSES: Mapping[str, Mapping[str, float]] = {
    "cross_entropy": {},
    "focal": {"gamma": 3.0},
    "focal_5": {"gamma": 5.0},
    "dual_focal": {"gamma": 5.0},
    "focal_calibration": {"gamma": 3.0, "lam": 0.5},
}


@dataclass(frozen=True)
class Run:
    """One training."""

    table: str
    split: int
    loss: str = "cross_entropy"
    epochs: int = 30
    seed: int = 0

    def __str__(self) -> str:
        return f"{self.table}-{self.split}-{self.loss}-{self.epochs}-{self.seed}"


@dataclass(frozen=True)
class Recorded:
    """Logits (epochs, N, K) on validation and test, and their labels (N,)."""

    validation: Tensor
    test: Tensor
    labels: Tensor
    test_labels: Tensor


def dataset_of(table: Path, split: int) -> Dataset:
    """A table, split at random so that equal rows stay together."""
    frame = pd.read_parquet(table)
    random = np.random.default_rng(split)
    kinds = frame.groupby(list(frame.columns), dropna=False, observed=True).ngroup().to_numpy()
    frame = frame.iloc[random.permutation(kinds.max() + 1)[kinds].argsort(kind="stable")]
    tested = round(0.3 * len(frame))
    validated = min(MOST_VALIDATED, round(0.2 * len(frame)))
    parts = {
        "test": frame[:tested],
        "validation": frame[tested : tested + validated],
        "train": frame[tested + validated :][:MOST_TRAINED],
    }
    options: dict[str, object] = {"label": "label", "on_bad_sample": "skip"}
    columns = [name for name in frame.columns if name != "label"]
    if len(columns) == 1 and frame[columns[0]].dtype.kind not in "biuf":
        options |= {"text": columns[0], "text_form": "weighted_words"}
    with TemporaryDirectory() as folder:
        for name, part in parts.items():
            options[name] = f"{folder}/{name}.parquet"
            part.reset_index(drop=True).to_parquet(f"{folder}/{name}.parquet")
        return load_dataset("parquet", seed=split, **options)


def train(run: Run, dataset: Dataset) -> Recorded:
    """Train as a trial does, and predict after each epoch."""
    is_text = len(dataset.samples.shape) != 1 or "Words" in type(dataset.samples).__name__
    name, options = ("text_mlp", {}) if is_text else ("mlp", {"width": 128})
    recipe = {k: v for k, v in usual_recipe(name, {}).items() if k != "patience"}
    config = TrainingConfig(**{**recipe, "epochs": run.epochs})
    config = replace(config, batch_size=batch_size_for(config.batch_size, len(dataset.train)))
    torch.manual_seed(run.seed)
    model = model_for(dataset, name, options)
    loss = run.loss.removesuffix("_5") if run.loss in LOSSES else run.loss
    criterion = make_loss(loss, num_classes=dataset.num_classes, **LOSSES[run.loss])
    trainer = Trainer(model, criterion, dataset, config, seed=run.seed, device=CPU)
    found: tuple[list[Tensor], list[Tensor]] = [], []
    for _ in range(run.epochs):
        trainer.train_epoch()
        for logits, split in zip(found, (dataset.validation, dataset.test), strict=True):
            logits.append(trainer.predict(split)[0])
    known = (torch.tensor(split.labels) for split in (dataset.validation, dataset.test))
    return Recorded(*map(torch.stack, found), *known)


def recorded(folder: Path, run: Run, dataset: Callable[[], Dataset]) -> Recorded:
    """A training from its file, or trained and written."""
    path = folder / f"{run}.pt"
    if not path.exists():
        torch.save(vars(train(run, dataset())), path.with_suffix(".part"))
        path.with_suffix(".part").rename(path)
    return Recorded(**torch.load(path))


def epochs_of_pilot(pilot: Recorded, patience: int = 10) -> int:
    """The number of epochs that the pilot finds, of its validation NLL after each epoch."""
    losses = torch.nn.functional.cross_entropy
    nll = [float(losses(logits, pilot.labels)) for logits in pilot.validation]
    means = [fmean(nll[end - patience : end]) for end in range(patience, len(nll) + 1)]
    for end in range(len(means)):
        best = means.index(min(means[: end + 1]))
        if end - best >= patience:
            return patience + best - (patience - 1) // 2
    return len(nll)


def record(folder: Path, tables: Sequence[Path], splits: int, seeds: int) -> None:
    """Train what `show` reads: the pilot, seeds with its epochs, other losses, long trainings."""
    folder.mkdir(parents=True, exist_ok=True)
    for split, table in product(range(splits), tables):
        kept: list[Dataset] = []

        def dataset(table: Path = table, split: int = split, kept: list[Dataset] = kept) -> Dataset:
            kept[:] = kept or [dataset_of(table, split)]
            return kept[0]

        pilot = Run(table.stem, split)
        epochs = epochs_of_pilot(recorded(folder, pilot, dataset))
        runs = [replace(pilot, epochs=epochs, seed=seed) for seed in range(seeds)]
        runs += [replace(pilot, epochs=100)]
        runs += [replace(pilot, epochs=epochs, loss=loss) for loss in LOSSES]
        for run in runs:
            recorded(folder, run, dataset)
        print(table.stem, split, epochs, flush=True)


def main() -> None:
    """Record, or print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("action", choices=["record", "show"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("tables", nargs="*", type=Path)
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--seeds", type=int, default=5)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.action == "record":
        record(arguments.folder, arguments.tables, arguments.splits, arguments.seeds)


if __name__ == "__main__":
    main()
