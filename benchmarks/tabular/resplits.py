"""Replays with a random validation and test split each: do more trials make the selection worse?

    python -m benchmarks.tabular.resplits benchmarks/tabular/fashion_mnist.yaml --folder FOLDER

Other replays share one validation split, so its luck looks like an effect. Here, all recorded
trials of the quickstart's losses are trained once more (about 10 minutes), and their logits are
kept in ``FOLDER``, from where an interrupted run continues. For each replay, the validation and
test samples are pooled and split anew, and the metrics after the last epoch are computed from the
new splits. The temperature belongs to the new validation split; the curves that ASHA compares, and
the training, are those of the recorded split. Another recipe needs a folder of its own:
``--set training.epochs=12``.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

import numpy as np
import torch

from benchmarks.tabular.curves import (
    Curves,
    Trials,
    parser_of_recordings,
    read_trials,
    with_error_intervals,
)
from benchmarks.tabular.policies import Calsweep, guided, published_first
from benchmarks.tabular.record import train
from benchmarks.tabular.regret import Row, Truth, add_sets, mean_and_error, run
from benchmarks.tabular.selected import Policy
from sweeps.planning.data import load_data
from sweeps.search.space import SearchSpace
from sweeps.sweep_file.loading import load_sweep
from sweeps.sweep_file.schema import SweepFile
from trainables import metrics as M
from trainables.contract.config import trial_folder
from trainables.contract.messages import Entry
from trainables.contract.setting import BASELINE, Setting
from trainables.data.core.base import Dataset
from trainables.files.rows import Rows
from trainables.files.storage import Folder
from trainables.posthoc import TemperatureScaling

SPLITS = ("validation", "test")
METRICS = ("ece", "error", "nll", "brier")
BUDGETS = (4, 8, 20, 50, 100)
SEARCHES = {
    "published first": published_first(),
    "published first, expected finalists": published_first(expected=True),
    "guided": guided(),
}


@dataclass(frozen=True)
class Trained:
    """A trained trial: history, logits (P, K) and labels (P,) of validation and test samples."""

    setting: Setting
    seed: int
    history: list[Entry]
    logits: torch.Tensor
    labels: torch.Tensor

    def on(self, validation: torch.Tensor, test: torch.Tensor) -> list[Entry]:
        """The history, with metrics of the last epoch on other splits, given as indices."""
        scaling = TemperatureScaling().fit(self.logits[validation], self.labels[validation])
        last = {**self.history[-1], "temperature": scaling.temperature}
        for split, index in (("val", validation), ("test", test)):
            own, targets = self.logits[index], self.labels[index]
            for suffix, values in (("", own), ("_scaled", scaling(own))):
                found = M.evaluate(values, targets, METRICS)
                last |= {f"{split}_{name}{suffix}": value for name, value in found.items()}
        return [*self.history[:-1], last]


def trained(sweep: SweepFile, dataset: Dataset, trials: Trials, folder: Path) -> Iterator[Trained]:
    """Trials that reached the last epoch, trained again unless the folder has them."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, (setting, seed, recorded) in enumerate(trials):
        path = folder / f"{number:04d}.npz"
        if len(recorded) < sweep.training.epochs:
            continue
        if not path.exists():
            with tempfile.TemporaryDirectory(prefix="calsweep-tabular-") as at:
                history = train(sweep, dataset, setting, seed, [sweep.training.epochs], at)
                trial = Folder(at) / trial_folder(0)
                parts = [Rows.read(trial, split).tensors() for split in SPLITS]
            logits, labels = map(torch.cat, zip(*parts, strict=True))
            new = path.with_suffix(".new.npz")
            np.savez(new, logits=logits, labels=labels, history=json.dumps(history))
            os.replace(new, path)
        with np.load(path) as arrays:
            history = json.loads(str(arrays["history"]))
            logits, labels = (torch.from_numpy(arrays[name]) for name in ("logits", "labels"))
        yield Trained(setting, seed, history, logits, labels)


def resplit(
    found: Sequence[Trained], num_validation: int, number: int
) -> Iterator[tuple[Setting, int, list[Entry]]]:
    """The trials on random splits of the same sizes."""
    order = torch.from_numpy(np.random.default_rng(number).permutation(len(found[0].labels)))
    for trial in found:
        history = trial.on(order[:num_validation], order[num_validation:])
        yield trial.setting, trial.seed, history


def main() -> None:
    """Train what is missing, replay, and print the tables."""
    parser = parser_of_recordings(__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, required=True, help="where logits are kept")
    parser.add_argument("--replays", type=int, default=48, help="replays, each with its splits")
    add_sets(parser)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    for file in arguments.sweeps:
        sweep = load_sweep(file, arguments.set)
        losses = {section.name for section in sweep.losses} | {BASELINE.loss}
        trials = [t for t in read_trials(Path(file).with_suffix(".parquet")) if t[0].loss in losses]
        dataset = load_data(load_sweep(file))
        found = list(trained(sweep, dataset, trials, arguments.folder / Path(file).stem))
        count = len(dataset.validation)
        rows: dict[tuple[str, int], list[Row]] = {}
        for number in range(arguments.replays):
            new = with_error_intervals(resplit(found, count, number), count)
            truth = Truth(Curves(new, SearchSpace(sweep.losses)), sweep)
            for name, search in SEARCHES.items():
                for budget in BUDGETS:
                    row = run(_with(search, budget), sweep, truth, dataset.num_classes, number)
                    rows.setdefault((name, budget), []).append(row)
        _print_table(Path(file).stem, rows)


def _with(search: Calsweep, trials: int) -> Policy:
    return replace(search, sets=(*search.sets, f"search.trials={trials}"))


def _print_table(name: str, rows: dict[tuple[str, int], list[Row]]) -> None:
    replays = len(next(iter(rows.values())))
    print(f"\n{name}: {replays} replays\n")
    print(
        "| search | trials | test ECE | − with fewer trials | error | beyond the guard | epochs |"
    )
    print("| --- " * 7 + "|", flush=True)
    keys = list(rows)
    for before, key in zip([("", 0), *keys], keys, strict=False):
        own = rows[key]
        change = ""
        if before[0] == key[0]:
            differences = [a.ece - b.ece for a, b in zip(own, rows[before], strict=True)]
            change = mean_and_error(differences)
        print(
            f"| {key[0]} | {key[1]} | {mean_and_error([row.ece for row in own])} | {change} | "
            f"{fmean(row.error for row in own):.4f} | "
            f"{fmean(row.beyond_guard for row in own):.0%} | "
            f"{fmean(row.epochs for row in own):,.0f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
