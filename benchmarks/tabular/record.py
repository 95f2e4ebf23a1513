"""Record trials: published and quasi-random settings of every loss, with several seeds.

    python -m benchmarks.tabular.record benchmarks/tabular/digits.yaml          # hours
    python -m benchmarks.tabular.record benchmarks/tabular/digits.yaml --pack

Trains in this process, with one thread, and writes a file for each trial into the folder
``digits.parts`` next to the sweep file. An interrupted recording continues when it is run again.
Several may run concurrently. ``--pack`` moves the files into ``digits.parquet``.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import optuna
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from filelock import FileLock, Timeout
from optuna.exceptions import ExperimentalWarning

from benchmarks.tabular.curves import as_table, read_trials
from sweeps.planning.data import load_data
from sweeps.search.space import SearchSpace
from sweeps.sweep_file.loading import load_sweep
from sweeps.sweep_file.schema import SweepFile
from trainables.contract.config import TrialSetup
from trainables.contract.messages import Entry, Failed, TrialConfig, Waiting
from trainables.contract.setting import Setting
from trainables.data.core.base import Dataset
from trainables.trials.trial import TrialRun

SEEDS = (0, 1, 2)
POINTS = {0: 0, 1: 16, 2: 28, 3: 40}  # quasi-random settings by number of hyperparameters
METRICS = ("nll", "error", "ece", "adaptive_ece", "smooth_ece", "debiased_ece", "brier")

Numbered: TypeAlias = tuple[int, Setting, int]
"""The number of a setting, the setting and a seed."""

Left: TypeAlias = tuple[Path, Setting, int]
"""Where a trial is recorded, its setting and its seed."""


def settings(
    sweep: SweepFile, num_classes: int, points: Mapping[int, int] = POINTS
) -> list[Setting]:
    """The settings to record: the baseline, all published ones, and a Sobol sequence per loss."""
    space = SearchSpace(sweep.losses)
    found = dict.fromkeys(space.initial_settings(num_classes))
    for loss, branch in space.branches.items():
        if not branch:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ExperimentalWarning)
            sampler = optuna.samplers.QMCSampler(
                seed=0, scramble=True, warn_asynchronous_seeding=False
            )
        study = optuna.create_study(sampler=sampler)
        for _ in range(points[len(branch)]):
            trial = study.ask({**branch})
            study.tell(trial, 0.0)
            found[Setting(loss, trial.params | space.fixed[loss])] = None
    return list(found)


def in_order(
    sweep: SweepFile, num_classes: int, points: Mapping[int, int] = POINTS
) -> tuple[list[tuple[int, Setting]], list[tuple[int, Setting]]]:
    """The published settings with their numbers, and the others in random order."""
    known = list(enumerate(settings(sweep, num_classes, points)))
    count = len(SearchSpace(sweep.losses).initial_settings(num_classes))
    others = np.random.default_rng(0).permutation(len(known) - count) + count
    return known[:count], [known[place] for place in others]


def record(
    sweep: SweepFile,
    dataset: Dataset,
    setting: Setting,
    seed: int,
    outcome_epochs: Sequence[int],
) -> list[Entry]:
    """Train one trial and return its history, with all metrics after ``outcome_epochs``.

    The history is short if the trial diverged.
    """
    with tempfile.TemporaryDirectory(prefix="calsweep-tabular-") as folder:
        return train(sweep, dataset, setting, seed, outcome_epochs, folder)


def train(
    sweep: SweepFile,
    dataset: Dataset,
    setting: Setting,
    seed: int,
    outcome_epochs: Sequence[int],
    folder: str,
) -> list[Entry]:
    """Like :func:`record`, in a folder that is kept."""
    run = trial_of(sweep, dataset, setting, seed, outcome_epochs, folder)
    while True:
        report = run.advance()
        if isinstance(report, Waiting):
            raise OSError(report.reason)
        if isinstance(report, Failed) or report.done:
            return run.history


def trial_of(
    sweep: SweepFile,
    dataset: Dataset,
    setting: Setting,
    seed: int,
    outcome_epochs: Sequence[int],
    folder: str,
) -> TrialRun:
    """The trial to advance; it writes into ``folder``."""
    setup = TrialSetup(
        model=sweep.model.name,
        model_options=sweep.model.options,
        training=sweep.training.config(),
        trials_uri=folder,
        outcome_epochs=tuple(outcome_epochs),
        deciding_metrics=METRICS,
    )
    return TrialRun(dataset, setup, TrialConfig(0, "search", setting, seed))


def main() -> None:
    """Record, or pack."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sweep", type=Path, help="a sweep file")
    parser.add_argument(
        "--pack", action="store_true", help="write the Parquet file from the finished trials"
    )
    arguments = parser.parse_args()
    packed = arguments.sweep.with_suffix(".parquet")
    folder = arguments.sweep.with_suffix(".parts")
    if arguments.pack:
        pack(folder, packed)
        return
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    folder.mkdir(exist_ok=True)
    sweep = load_sweep(str(arguments.sweep))
    dataset = load_data(sweep)
    published, others = in_order(sweep, dataset.num_classes)
    # An interrupted recording can be replayed: published settings come first, each with all seeds.
    trials = [(*numbered, seed) for numbered in (*published, *others) for seed in SEEDS]
    begun = time.monotonic()
    for done, (path, setting, seed) in enumerate(unrecorded(trials, folder, packed), start=1):
        history = record(sweep, dataset, setting, seed, range(1, sweep.training.epochs + 1))
        write(as_table(setting, seed, history), path)
        print(f"{done} trials, {(time.monotonic() - begun) / done:.1f} s each", flush=True)


def unrecorded(trials: Iterable[Numbered], folder: Path, packed: Path) -> Iterator[Left]:
    """The trials that are neither recorded nor being recorded."""
    known = _trials_of(packed) if packed.exists() else ()
    for number, setting, seed in trials:
        path = folder / f"{number:04d}-{seed}.parquet"
        if (setting, seed) in known or path.exists():
            continue
        with suppress(Timeout), FileLock(path.with_suffix(".lock"), timeout=0):
            yield path, setting, seed


def write(table: pa.Table, path: Path, **options: Any) -> None:
    """Write a Parquet file atomically."""
    new = path.with_suffix(".new")
    pq.write_table(table, new, compression="zstd", **options)
    os.replace(new, path)


def pack(folder: Path, file: Path) -> None:
    """Append the trials of a folder that a file lacks, with numbers in 32 bits."""
    parts = sorted(folder.glob("*.parquet"))
    known = _trials_of(file) if file.exists() else set()
    new = [path for path in parts if not _trials_of(path) & known]
    tables = [pq.read_table(path) for path in ([file] if file.exists() else []) + new]
    table = pa.concat_tables(tables, promote_options="permissive")
    for index, field in enumerate(table.schema):
        if pa.types.is_floating(field.type):
            table = table.set_column(index, field.name, pc.cast(table[index], pa.float32()))
    write(table, file)
    for path in parts:
        path.unlink()
        path.with_suffix(".lock").unlink(missing_ok=True)
    print(f"{file}: {len(new)} trials more, {file.stat().st_size / 1e6:.1f} MB")


def _trials_of(file: Path) -> set[tuple[Setting, int]]:
    return {(setting, seed) for setting, seed, _ in read_trials(file)}


if __name__ == "__main__":
    main()
