"""What a sweep hands out, on real tables: scaling, epoch, number of seeds, inverse maps, pilot.

    python -m benchmarks.handed_out record FOLDER TABLES...
    python -m benchmarks.handed_out show FOLDER
    python -m benchmarks.handed_out pilot FOLDER

TABLES are Parquet files with a column ``label``; a single column of strings is text. `record`
trains perceptrons (2 x 128 units; for text the default) with the default recipe on random splits
that keep equal rows together, and keeps the logits of each epoch in FOLDER. It continues where it
was interrupted. `show` replays the decisions. Its columns are the relative difference of the test
NLL from the first row, a mean over datasets of the means over splits; and the number of datasets on
which it is better and worse by more than .1 %. `pilot` compares half and twice the epochs that the
pilot finds.
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

from trainables.contract.config import (
    OF_PILOT,
    USUAL_SCALING,
    ScalingMethod,
    ScalingWay,
    TrainingConfig,
)
from trainables.data import load_dataset
from trainables.data.core.base import Dataset
from trainables.engine.training import Trainer
from trainables.losses import make_loss
from trainables.metrics.proper_scores import log_losses_of_logits
from trainables.models import model_for
from trainables.models.recipes import batch_size_for, usual_recipe
from trainables.posthoc import cross_fitted
from trainables.posthoc.chosen import fit_scaling
from trainables.posthoc.ensembles import fit_mean
from trainables.trials.kept_epoch import epoch_losses, is_better
from trainables.trials.scaling import inverse_of

CPU = torch.device("cpu")
TEMPERATURE = ScalingWay("temperature")
NAMES: tuple[ScalingMethod, ...] = ("temperature", "none", "auto")
MOST_EPOCHS = 30
EARLIEST = 6  # where a pilot with a patience of ten epochs can end
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
    epochs: int = MOST_EPOCHS
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


def dataset_of(
    table: Path, split: int, trained: int = MOST_TRAINED, validated: int = MOST_VALIDATED
) -> Dataset:
    """A table with at most so many samples, split at random so that equal rows stay together."""
    frame = pd.read_parquet(table)
    random = np.random.default_rng(split)
    kinds = frame.groupby(list(frame.columns), dropna=False, observed=True).ngroup().to_numpy()
    frame = frame.iloc[random.permutation(kinds.max() + 1)[kinds].argsort(kind="stable")]
    tested = round(0.3 * len(frame))
    validated = min(validated, round(0.2 * len(frame)))
    parts = {
        "test": frame[:tested],
        "validation": frame[tested : tested + validated],
        "train": frame[tested + validated :][:trained],
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


def train_usual(run: Run, dataset: Dataset) -> Recorded:
    """Train a perceptron, for texts the default network."""
    is_text = len(dataset.samples.shape) != 1 or "Words" in type(dataset.samples).__name__
    name, options = ("text_mlp", {}) if is_text else ("mlp", {"width": 128})
    return train(run, dataset, name, options)


def train(run: Run, dataset: Dataset, name: str, options: Mapping[str, object]) -> Recorded:
    """Train a network as a trial does, and predict after each epoch."""
    recipe = {k: v for k, v in usual_recipe(name, {}).items() if k not in OF_PILOT}
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
        torch.save(vars(train_usual(run, dataset())), path.with_suffix(".part"))
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
        runs += [replace(pilot, epochs=each) for each in beside(epochs)]
        runs += [replace(pilot, epochs=epochs, loss=loss) for loss in LOSSES]
        for run in runs:
            recorded(folder, run, dataset)
        print(table.stem, split, epochs, flush=True)


def beside(epochs: int) -> tuple[int, ...]:
    """Half of the epochs, and twice as many where the pilot was not stopped."""
    return (epochs // 2, 2 * epochs) if epochs == MOST_EPOCHS else (epochs // 2,)


def losses_of(logits: Tensor, labels: Tensor) -> Tensor:
    return log_losses_of_logits(logits.double(), labels)


Pair = tuple[Tensor, Tensor]


def scaled(validation: Pair, test: Pair, way: ScalingWay) -> float:
    """The test NLL after a scaling that is fitted on the validation split."""
    scaling, _ = fit_scaling(validation[0].double(), validation[1], way)
    return float(losses_of(scaling(test[0].double()), test[1]).mean())


def kept_epoch(known: Recorded, refined: bool, guarded: bool) -> int:
    """The epoch with the lowest validation NLL, after its own temperature if `refined`."""
    losses = [
        losses_of(cross_fitted(z.double(), known.labels) if refined else z, known.labels)
        for z in known.validation
    ]
    best = min(range(len(losses)), key=lambda epoch: float(losses[epoch].mean()))
    last = known.validation[-1]
    return best if not guarded or is_better(losses[best], losses[-1], (last, known.labels)) else -1


def of_split(folder: Path, table: str, split: int, seeds: int) -> dict[str, float]:
    """The test NLL of each thing that could be handed out; means over two single networks."""

    def read(run: Run) -> Recorded:
        return Recorded(**torch.load(folder / f"{run}.pt"))

    pilot = Run(table, split)
    epochs = epochs_of_pilot(read(pilot))
    runs = [read(replace(pilot, epochs=epochs, seed=seed)) for seed in range(seeds)]
    first = runs[0]
    found: dict[str, float] = {name: last_epoch(first, ScalingWay(name)) for name in NAMES}
    for name, length in (("the pilot's", epochs), ("30", 30), ("100", 100)):
        known = read(replace(pilot, epochs=length))
        found |= {f"{name} epochs, {key}": value for key, value in of_epochs(known).items()}
    for networks in range(2, seeds + 1):
        found[f"mean of {networks} seeds, temperature"] = of_mean(runs[:networks], TEMPERATURE)
    found[f"mean of {seeds} seeds, auto"] = of_mean(runs, USUAL_SCALING)
    for loss in LOSSES:
        if loss != "cross_entropy":
            run = replace(pilot, epochs=epochs, loss=loss)
            found |= {f"{loss}, {key}": value for key, value in of_loss(read(run), run).items()}
    return found


def last_epoch(known: Recorded, way: ScalingWay, epoch: int = -1) -> float:
    pairs = (known.validation[epoch], known.labels), (known.test[epoch], known.test_labels)
    return scaled(*pairs, way)


def of_epochs(known: Recorded) -> dict[str, float]:
    """With a temperature, after the last epoch and after the kept one."""
    found = {"last": last_epoch(known, TEMPERATURE)}
    for refined, guarded in product((False, True), repeat=2):
        name = f"{'refinement' if refined else 'NLL'}{', guarded' * guarded}"
        found[name] = last_epoch(known, TEMPERATURE, kept_epoch(known, refined, guarded))
    return found


def of_mean(runs: Sequence[Recorded], way: ScalingWay) -> float:
    """Several networks."""
    mean = fit_mean([known.validation[-1] for known in runs], runs[0].labels, way=way)
    logits = mean([known.test[-1].double() for known in runs])
    return float(losses_of(logits, runs[0].test_labels).mean())


def of_loss(known: Recorded, run: Run) -> dict[str, float]:
    """Another loss: with a temperature, and with its inverse map before it."""
    pairs = (known.validation[-1], known.labels), (known.test[-1], known.test_labels)
    inverse = inverse_of(run.loss.removesuffix("_5"), LOSSES[run.loss], known.test.shape[2])
    assert inverse is not None
    mapped = [(inverse(logits.double()), labels) for logits, labels in pairs]
    return {
        "temperature": scaled(*pairs, TEMPERATURE),
        "inverse map, temperature": scaled(mapped[0], mapped[1], TEMPERATURE),
    }


def show(folder: Path, splits: int, seeds: int) -> None:
    """Print the table, and a line for each dataset."""
    parts = sorted({tuple(path.stem.split("-")[:2]) for path in folder.glob("*-*-*.pt")})
    of_tables: dict[str, list[dict[str, float]]] = {}
    for table, split in sorted(parts, key=lambda part: (part[1], part[0])):
        if int(split) >= splits:
            continue
        of_tables.setdefault(table, []).append(of_split(folder, table, int(split), seeds))
        print(f"<!-- {table} {split}: {of_tables[table][-1]} -->", flush=True)
    means = {
        table: {name: fmean(each[name] for each in found) for name in found[0]}
        for table, found in of_tables.items()
    }
    print("\n| handed out | NLL against a temperature | better / worse | worst |")
    print("| --- | --- | --- | --- |")
    for name in next(iter(means.values())):
        changes = [each[name] / each["temperature"] - 1 for each in means.values()]
        better, worse = (sum(sign * c > 0.001 for c in changes) for sign in (-1, 1))
        print(f"| {name} | {fmean(changes):+.1%} | {better} / {worse} | {max(changes):+.1%} |")


def show_pilot(folder: Path, splits: int) -> None:
    """Print a row for each dataset and split: epochs, and what half or twice as many would give."""
    print("| dataset | split | epochs | others | z on validation | test NLL | tried | taken |")
    print("| --- " * 8 + "|")
    for path in sorted(folder.glob(f"*-*-cross_entropy-{MOST_EPOCHS}-0.pt")):
        table, split = path.stem.split("-")[:2]
        if int(split) >= splits:
            continue
        epochs = epochs_of_pilot(Recorded(**torch.load(path)))
        known = {
            each: Recorded(**torch.load(folder / f"{Run(table, int(split), epochs=each)}.pt"))
            for each in (epochs, *beside(epochs))
        }
        theirs = known[epochs]
        for other in beside(epochs):
            each = known[other]
            ours, last = (
                epoch_losses((run.validation[-1], run.labels), refined=True)
                for run in (each, theirs)
            )
            difference = ours - last
            z = float(difference.mean() / difference.std()) * len(difference) ** 0.5
            change = last_epoch(each, TEMPERATURE) / last_epoch(theirs, TEMPERATURE) - 1
            tried = epochs == (MOST_EPOCHS if other > epochs else EARLIEST)
            taken = tried and is_better(ours, last, (theirs.validation[-1], theirs.labels))
            words = ["yes" if found else "no" for found in (tried, taken)]
            row = [table, split, epochs, other, f"{z:+.1f}", f"{change:+.1%}", *words]
            print(f"| {' | '.join(map(str, row))} |", flush=True)


def main() -> None:
    """Record, or print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("action", choices=["record", "show", "pilot"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("tables", nargs="*", type=Path)
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--seeds", type=int, default=5)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.action == "record":
        record(arguments.folder, arguments.tables, arguments.splits, arguments.seeds)
    elif arguments.action == "pilot":
        show_pilot(arguments.folder, arguments.splits)
    else:
        show(arguments.folder, arguments.splits, arguments.seeds)


if __name__ == "__main__":
    main()
