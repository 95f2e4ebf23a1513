"""Predictions of recorded trials: trains their networks again and checks the recorded metrics.

    python -m benchmarks.tabular.predictions benchmarks/tabular/digits.yaml          # minutes
    python -m benchmarks.tabular.predictions benchmarks/tabular/digits.yaml --pack

For the first seed of every setting, it stores the logits after the last epoch on the validation and
test splits, to try new metrics and post-hoc methods without training. For every seed, it adds to
the curves the calibration errors of a perfectly calibrated model with the same confidences, after
the last epoch. It writes a file per trial into ``digits.predictions.parts``, and continues an
interrupted run. ``--pack`` moves them into ``digits.predictions.parquet`` and ``digits.parquet``.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from filelock import FileLock, Timeout

from benchmarks.tabular.curves import read_trials
from benchmarks.tabular.record import train, write
from sweeps.planning.data import load_data
from sweeps.sweep_file.loading import load_sweep
from trainables.contract.config import trial_folder
from trainables.contract.messages import Entry
from trainables.contract.setting import Setting
from trainables.files.rows import Rows
from trainables.files.storage import Folder

SPLITS = ("validation", "test")
CALIBRATED = ("val_ece_calibrated", "val_ece_calibrated_high")
SAME = {"val_nll": 1e-5, "val_ece": 1e-5, "test_ece": 1e-5}  # tolerances for float32 rounding


@dataclass(frozen=True)
class Predicted:
    """The predictions of a trial's network after its last epoch.

    Attributes:
        setting: Setting of the trial.
        seed: Seed of the trial.
        logits: Logits by split, float32 (N, K), in the precision of float16; the row maximum is 0.
        labels: Labels by split, int64 (N,).
    """

    setting: Setting
    seed: int
    logits: dict[str, np.ndarray]
    labels: dict[str, np.ndarray]


def read_predicted(path: Path) -> Iterator[Predicted]:
    """The trials of a file that this module wrote."""
    table = pq.read_table(path)
    labels = {
        split: np.array(json.loads(table.schema.metadata[split.encode()])) for split in SPLITS
    }
    logits = {
        split: table[split].combine_chunks().flatten().to_numpy(zero_copy_only=False)
        for split in SPLITS
    }
    logits = {
        split: flat.astype(np.float32).reshape(len(table), len(labels[split]), -1)
        for split, flat in logits.items()
    }
    for number, row in enumerate(table.drop_columns(list(SPLITS)).to_pylist()):
        setting = Setting(row["loss"], json.loads(row["hyperparameters"]))
        own = {split: logits[split][number] for split in SPLITS}
        yield Predicted(setting, row["seed"], own, labels)


def main() -> None:
    """Train the remaining trials, or pack."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sweep", type=Path, help="a sweep file with recorded trials beside it")
    parser.add_argument(
        "--pack", action="store_true", help="write the Parquet file from the finished trials"
    )
    arguments = parser.parse_args()
    curves = arguments.sweep.with_suffix(".parquet")
    folder = arguments.sweep.with_suffix(".predictions.parts")
    if arguments.pack:
        pack(folder, curves)
        return
    folder.mkdir(exist_ok=True)
    sweep = load_sweep(str(arguments.sweep))
    dataset = load_data(sweep)
    trials = list(read_trials(curves))
    first = min(seed for _, seed, _ in trials)
    begun, done = time.monotonic(), 0
    for number, (setting, seed, recorded) in enumerate(trials):
        path = folder / f"{number:04d}.parquet"
        if len(recorded) < sweep.training.epochs or path.exists():
            continue
        with (
            suppress(Timeout),
            FileLock(path.with_suffix(".lock"), timeout=0),
            tempfile.TemporaryDirectory(prefix="calsweep-tabular-") as at,
        ):
            history = train(sweep, dataset, setting, seed, [sweep.training.epochs], at)
            _check_same(setting, seed, recorded[-1], history[-1])
            write(_part(setting, seed, history[-1], at, keep=seed == first), path)
            done += 1
            print(f"{done} trials, {(time.monotonic() - begun) / done:.1f} s each", flush=True)


def _check_same(setting: Setting, seed: int, recorded: Entry, entry: Entry) -> None:
    for name, tolerance in SAME.items():
        if not abs(recorded[name] - entry[name]) <= tolerance:
            raise SystemExit(
                f"{setting} with seed {seed} comes to {name} = {entry[name]}, recorded was "
                f"{recorded[name]}: this machine rounds otherwise, so record the trials anew"
            )


def _part(setting: Setting, seed: int, last: Entry, folder: str, keep: bool) -> pa.Table:
    """The row of one trial; with logits if ``keep``."""
    row = {
        "loss": setting.loss,
        "hyperparameters": json.dumps(setting.hyperparameters, sort_keys=True),
        "seed": seed,
        **{name: last[name] for name in CALIBRATED},
    }
    fields = [(name, pa.array([value])) for name, value in row.items()]
    metadata = {}
    for split in SPLITS:
        rows = Rows.read(Folder(folder) / trial_folder(0), split)
        logits, labels = rows.logits, rows.labels
        flat = (logits - logits.max(axis=1, keepdims=True)).astype(np.float16).ravel()
        values = pa.array([flat if keep else None], pa.list_(pa.float16()))
        fields.append((split, values))
        metadata[split] = json.dumps(labels.tolist())
    return pa.table(dict(fields), metadata=metadata)


def pack(folder: Path, curves: Path) -> None:
    """Move the parts in a folder into the file of predictions and the file of curves."""
    parts = sorted(folder.glob("*.parquet"))
    if not parts:
        raise SystemExit(f"{folder} holds no trials to pack")
    table = pa.concat_tables([pq.read_table(path) for path in parts])
    known = {
        (row["loss"], row["hyperparameters"], row["seed"]): row
        for row in table.drop_columns(list(SPLITS)).to_pylist()
    }
    history = pq.read_table(curves)
    epochs = max(history["epoch"].to_pylist())
    found = [
        known.get((row["loss"], row["hyperparameters"], row["seed"]), {})
        if row["epoch"] == epochs
        else {}
        for row in history.select(["loss", "hyperparameters", "seed", "epoch"]).to_pylist()
    ]
    history = history.drop_columns([name for name in CALIBRATED if name in history.column_names])
    for name in CALIBRATED:
        column = pa.array([row.get(name) for row in found], pa.float32())
        history = history.append_column(name, column)
    write(history, curves)
    kept = table.filter(table["validation"].is_valid()).drop_columns(list(CALIBRATED))
    file = curves.with_suffix(".predictions.parquet")
    encodings = {f"{split}.list.element": "BYTE_STREAM_SPLIT" for split in SPLITS}
    write(kept, file, compression_level=19, use_dictionary=False, column_encoding=encodings)
    for path in parts:
        path.unlink()
        path.with_suffix(".lock").unlink(missing_ok=True)
    print(f"{file}: {len(kept)} trials, {file.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
