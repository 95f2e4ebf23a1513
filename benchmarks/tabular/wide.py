"""Record trials on many datasets, with the predictions after every second epoch.

    python -m benchmarks.tabular.wide --into ../recordings benchmarks/tabular/wide/*.yaml   # hours
    python -m benchmarks.tabular.wide --into ../recordings benchmarks/tabular/wide/*.yaml --pack

Settings are those of :mod:`benchmarks.tabular.record`, but the quasi-random ones are few and only
of the losses that are replayed. Seeds are 0 to 2, those of cross-entropy 0 to 4. Each trial becomes
two files in a folder of its dataset: metrics after every epoch, and logits, which are too large for
the repository. The datasets take turns, so that an interrupted recording has something of each; it
continues when it is run again, and several may run concurrently. ``--pack`` appends the metrics of
finished trials to ``NAME.parquet`` beside each sweep file. :mod:`benchmarks.tabular.sources` writes
the tables that are not in ``../shared``.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
import optuna
import pyarrow as pa
import torch

from benchmarks.tabular.curves import as_table
from benchmarks.tabular.predictions import SPLITS
from benchmarks.tabular.record import Numbered, in_order, pack, trial_of, unrecorded, write
from sweeps.planning.data import load_data
from sweeps.sweep_file.loading import load_sweep
from sweeps.sweep_file.schema import SweepFile
from trainables.contract.config import trial_folder
from trainables.contract.messages import Failed, Progressed
from trainables.contract.setting import BASELINE, Setting
from trainables.data.core.base import Dataset
from trainables.files.rows import Rows
from trainables.files.storage import Folder

POINTS = {0: 0, 1: 2, 2: 4, 3: 5}  # quasi-random settings by number of hyperparameters
SEEDS = ((0, 1), (2,))  # the second part comes when the first is complete
BASELINE_SEEDS = (0, 1, 2, 3, 4)
REPLAYED = (
    "label_smoothing",
    "focal",
    "dual_focal",
    "focal_calibration",
    "inverse_focal",
    "mbls",
    "cals_alm",
    "mmce",
    "r_aurc",
)
"""Losses of :data:`benchmarks.tabular.regret.QUICKSTART`, without the baseline."""


def order(sweep: SweepFile, num_classes: int) -> list[Numbered]:
    """All trials: the baseline, settings of replayed losses, the others."""
    published, others = in_order(sweep, num_classes, POINTS)
    replayed = [each for each in (*published, *others) if each[1].loss in REPLAYED]
    not_replayed = [each for each in published if each[1].loss not in REPLAYED]
    baseline = [
        (*each, seed) for each in published if each[1] == BASELINE for seed in BASELINE_SEEDS
    ]
    rest = [
        (number, setting, seed)
        for seeds in SEEDS
        for part in (replayed, not_replayed)
        for seed in seeds
        for number, setting in part
        if setting != BASELINE
    ]
    return [*baseline, *rest]


def record(sweep: SweepFile, dataset: Dataset, setting: Setting, seed: int, at: Path) -> None:
    """Train one trial, and write its metrics to ``at`` and its logits beside it."""
    epochs = range(1, sweep.training.epochs + 1)
    logits: dict[str, list[np.ndarray]] = {split: [] for split in SPLITS}
    with tempfile.TemporaryDirectory(prefix="calsweep-tabular-") as folder:
        run = trial_of(sweep, dataset, setting, seed, epochs, folder)
        while True:
            report = run.advance()
            if not isinstance(report, Failed | Progressed):
                raise OSError(report)
            if isinstance(report, Failed):
                break
            if len(run.history) % 2 == 0 or report.done:
                for split in SPLITS:
                    rows = Rows.read(Folder(folder) / trial_folder(0), split).logits
                    shifted = rows - rows.max(axis=1, keepdims=True)
                    logits[split].append(shifted.astype(np.float16))
            if report.done:
                break
    if not run.history:
        run.history.append({"epoch": 0})  # it diverged in its first epoch
    write(_logits_table(logits), at.with_suffix(".logits"))
    write(as_table(setting, seed, run.history), at)


def _logits_table(logits: dict[str, list[np.ndarray]]) -> pa.Table:
    columns = {
        split: pa.array([each.ravel() for each in of_epochs], pa.list_(pa.float16()))
        for split, of_epochs in logits.items()
    }
    return pa.table(columns)


def main() -> None:
    """Record, or pack."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sweeps", nargs="+", type=Path, metavar="FILE", help="sweep files")
    parser.add_argument("--into", type=Path, required=True, help="folder for the trials")
    parser.add_argument("--pack", action="store_true", help="append finished trials to the metrics")
    arguments = parser.parse_args()
    if arguments.pack:
        for file in arguments.sweeps:
            pack(arguments.into / file.stem, file.with_suffix(".parquet"))
        return
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    torch.set_num_threads(1)
    turns = {}
    for file in arguments.sweeps:
        folder = arguments.into / file.stem
        folder.mkdir(parents=True, exist_ok=True)
        sweep = load_sweep(str(file))
        dataset = load_data(sweep)
        trials = order(sweep, dataset.num_classes)
        turns[file] = sweep, dataset, unrecorded(trials, folder, file.with_suffix(".parquet"))
    while turns:
        for file, (sweep, dataset, left) in list(turns.items()):
            for path, setting, seed in left:
                begun = time.monotonic()
                record(sweep, dataset, setting, seed, path)
                print(f"{file.stem} {path.stem} {time.monotonic() - begun:.1f} s", flush=True)
                break
            else:
                del turns[file]


if __name__ == "__main__":
    main()
