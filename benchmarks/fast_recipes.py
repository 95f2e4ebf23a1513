"""Whether fast recipes predict the ranking under long ones: trains the same settings with both.

    python -m benchmarks.fast_recipes cifar10          # hours on one core
    python -m benchmarks.fast_recipes cifar10 --print

Each trial is written to ``fast_recipes.jsonl`` when it ends; recorded trials are not trained again.
Both recipes are those of calsweep, reduced for a CPU to 4,000 training images. The fast recipe has
a network of width 16, and a quarter of the batch size and learning rate. The long one trains a
small convolutional network for 40 epochs instead of a ResNet for 350.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any, Literal

import numpy as np
from scipy import stats

from benchmarks.tabular.record import record
from sweeps.messages.formatting import format_setting
from sweeps.planning.data import load_data
from sweeps.search.space import SearchSpace
from sweeps.sweep_file.loading import load_sweep
from sweeps.sweep_file.schema import SweepFile
from trainables.contract.messages import Entry
from trainables.contract.setting import Setting
from trainables.data.core.base import Dataset

RESULTS = Path(__file__).with_suffix(".jsonl")
DATA = "../shared/data"
SAMPLES = 4_000
DATASETS = {
    "cifar10": {
        "name": "parquet",
        "train": f"{DATA}/cifar10/train.parquet",
        "test": f"{DATA}/cifar10/test.parquet",
        "train_samples": SAMPLES,
        "validation": 2_500,
    },
    "fashion_mnist": {
        "name": "fashion_mnist",
        "root": DATA,
        "train_samples": SAMPLES,
        "validation": 2_500,
    },
}
LONG = {"model": "small_cnn", "training.epochs": 40}
FAST = {"model.width": 16, "training.batch_size": 128, "training.lr": 0.2}
MORE = {"focal", "dual_focal", "inverse_focal", "focal_calibration"}  # losses with two settings
SEEDS = (0, 1)
METRICS = ("error", "nll", "nll_scaled", "ece", "ece_scaled")
GUARD = 0.01  # maximum increase of the error over cross-entropy
Kind = Literal["fast", "long"]
KINDS: tuple[Kind, ...] = ("fast", "long")


def sweep_of(dataset: str, kind: Kind) -> SweepFile:
    """A sweep with the recipe and all losses, small enough for this machine."""
    every = load_sweep("benchmarks/tabular/cifar10.yaml").losses
    recipe = f"recipes/fast-{dataset.replace('_', '-')}"
    if kind == "long":
        recipe = "recipes/dual-focal-cifar10"
    changes: dict[str, Any] = {"dataset": DATASETS[dataset], "losses": list(every)}
    return load_sweep(recipe, changes | (LONG if kind == "long" else FAST))


def settings(sweep: SweepFile) -> list[Setting]:
    """The first published setting of each loss, and a second one of focal losses."""
    found: list[Setting] = []
    for setting in SearchSpace(sweep.losses).initial_settings(num_classes=10):
        known = sum(each.loss == setting.loss for each in found)
        if known < (2 if setting.loss in MORE else 1):
            found.append(setting)
    return found


def outcome(sweep: SweepFile, dataset: Dataset, setting: Setting, seed: int) -> Entry:
    """The outcome of one trial; {} if it failed."""
    epochs = sweep.training.epochs
    history = record(sweep, dataset, setting, seed, outcome_epochs=[epochs])
    return history[-1] if len(history) == epochs else {}


def read(path: Path) -> list[dict[str, Any]]:
    """The trials so far."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def measure(dataset: str, kind: Kind, seed: int, path: Path) -> None:
    """Train the missing trials of one recipe and seed."""
    sweep = sweep_of(dataset, kind)
    data = load_data(sweep)
    for setting in settings(sweep):
        trial = {
            "dataset": dataset,
            "recipe": kind,
            "setting": format_setting(setting.loss, setting.hyperparameters),
            "seed": seed,
        }
        if any(trial.items() <= known.items() for known in read(path)):
            continue
        begun = time.process_time()
        found = outcome(sweep, data, setting, seed)
        row = trial | {
            "seconds": round(time.process_time() - begun, 1),
            **{
                f"{split}_{name}": round(found.get(f"{split}_{name}", np.nan), 6)
                for split in ("val", "test")
                for name in METRICS
            },
            "temperature": round(found.get("temperature", np.nan), 4),
        }
        with path.open("a") as file:
            file.write(json.dumps(row) + "\n")
        print(kind, seed, row["setting"], row["test_error"], row["test_ece"], flush=True)


def table(rows: list[dict[str, Any]], dataset: str) -> list[str]:
    """Spearman correlations over settings, and the regret of the fast recipe's selection."""
    of: dict[tuple[str, int], dict[str, dict[str, Any]]] = {}
    for row in rows:
        if row["dataset"] == dataset:
            of.setdefault((row["recipe"], row["seed"]), {})[row["setting"]] = row

    def correlation(metric: str, first: tuple[str, int], second: tuple[str, int]) -> str:
        one, other = of.get(first, {}), of.get(second, {})
        both = [name for name in one if name in other]
        pairs = [(one[name][metric], other[name][metric]) for name in both]
        known = [pair for pair in pairs if np.isfinite(pair).all()]
        if len(known) < 5:
            return ""
        return f"{stats.spearmanr(*zip(*known, strict=True)).statistic:.2f} ({len(known)})"

    lines = [
        f"{dataset}, Spearman's rank correlation of settings (how many)",
        "",
        "| on the test split | fast and long | long, two seeds | fast, two seeds |",
        "| --- | --- | --- | --- |",
    ]
    for metric in (*(f"test_{name}" for name in METRICS), "temperature"):
        cells = [
            correlation(metric, ("fast", 0), ("long", 0)),
            correlation(metric, ("long", 0), ("long", 1)),
            correlation(metric, ("fast", 0), ("fast", 1)),
        ]
        lines.append(f"| {metric.removeprefix('test_')} | {' | '.join(cells)} |")
    fast, long = of.get(("fast", 0), {}), of.get(("long", 0), {})
    lines += ["", "| chosen by | setting | error | ECE | T, all by the long recipe |"]
    lines += ["| --- | --- | --- | --- | --- |"]
    names = {"cross-entropy": "cross_entropy", "the fast recipe": choice(fast)}
    for label, name in (names | {"the long recipe": choice(long)}).items():
        if name in long:
            row = long[name]
            values = f"{row['test_error']:.4f} | {row['test_ece']:.4f} | {row['temperature']:.2f}"
            lines.append(f"| {label} | {name} | {values} |")
    return lines


def choice(trials: dict[str, dict[str, Any]]) -> str | None:
    """The setting with the lowest validation ECE whose validation error is within the guard."""
    if "cross_entropy" not in trials:
        return None
    limit = trials["cross_entropy"]["val_error"] + GUARD
    kept = [name for name, row in trials.items() if row["val_error"] <= limit]
    return min(kept, key=lambda name: trials[name]["val_ece"])


def main() -> None:
    """Measure, or print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("dataset", choices=list(DATASETS))
    parser.add_argument("--results", type=Path, default=RESULTS, help="a file to continue with")
    parser.add_argument("--print", action="store_true", help="only print what is available")
    arguments = parser.parse_args()
    if not arguments.print:
        for seed in SEEDS:
            for kind in KINDS:
                measure(arguments.dataset, kind, seed, arguments.results)
    print("\n".join(table(read(arguments.results), arguments.dataset)))


if __name__ == "__main__":
    main()
