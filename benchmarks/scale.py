"""What a sweep costs its driver as the trials become many, by simulation.

    python -m benchmarks.scale [100 1000 10000]

The trials replay recorded learning curves instead of training; all else is real: Ray Tune, Optuna,
ASHA, the records, MLflow on SQLite. Prints for each number of trials the driver's CPU seconds
and the time to suggest a setting, over the first and the last tenth of the trials, the memory, how
many runs a second go into MLflow, and how long ``calsweep best`` takes.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil
from ray import tune
from rich.console import Console

import trainables.tune_trainable
from sweeps import cluster, runner
from sweeps.ledger import Ledger
from sweeps.loading import parse_sweep
from sweeps.records import State, TrialRecord
from trainables.metrics import METRIC_NAMES
from trainables.tune_trainable import as_result

EPOCHS = 9
_RUNGS = (1, 3, EPOCHS)
_SPLITS, _KINDS = ("val", "test"), ("", "_scaled")
# Validation error, NLL and ECE by epoch of a cross-entropy trial (digits, 600 training images).
_CURVE = [
    (0.5806, 1.6699, 0.1524),
    (0.1611, 0.5392, 0.1081),
    (0.0778, 0.2853, 0.0627),
    (0.0583, 0.2233, 0.0443),
    (0.0583, 0.1818, 0.0341),
    (0.0333, 0.1464, 0.0428),
    (0.0361, 0.1374, 0.0434),
    (0.0361, 0.1310, 0.0341),
    (0.0361, 0.1308, 0.0362),
]


class ReplayTrial(tune.Trainable):  # type: ignore[misc]
    """Reports a recorded curve, shifted by the trial's setting, with as many metrics as a trial."""

    def setup(self, config: dict[str, Any], **_: Any) -> None:
        """Called once per actor."""
        self.reset_config(config)

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """Take up another trial."""
        self._config, self._epoch = new_config, 0
        return True

    def step(self) -> dict[str, Any]:
        """One epoch."""
        error, nll, ece = _CURVE[self._epoch]
        self._epoch += 1
        x = sum(float(value) for value in self._config["hyperparameters"].values()) / 20
        noise = (hash((self._config["number"], self._epoch)) % 1000) / 1e5
        entry = {"epoch": self._epoch, "timestamp": time.time(), "train_loss": nll, "lr": 0.1}
        if self._epoch in _RUNGS:
            for name in METRIC_NAMES:
                entry |= {f"{split}_{name}{kind}": ece for split in _SPLITS for kind in _KINDS}
            entry |= {f"{split}_ece_{bound}": ece for split in _SPLITS for bound in ("low", "high")}
            entry |= {"temperature": 1.1}
        entry |= {"val_error": error + noise, "val_nll": nll + x + noise, "val_brier": nll / 2}
        entry |= {"val_ece": ece + (x - 0.3) ** 2 / 10 + noise, "val_adaptive_ece": ece}
        return {**as_result(entry), "done": self._epoch == EPOCHS}


class TimedLedger(Ledger):
    """Notes what the driver has spent whenever a trial ends."""

    cpu: list[float]
    memory: list[int]
    suggesting: list[float]

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        type(self).cpu, type(self).memory, type(self).suggesting = [], [], []

    def next(self) -> TrialRecord | None:
        """Timed."""
        start = time.perf_counter()
        record = super().next()
        if record is not None:
            self.suggesting.append(time.perf_counter() - start)
        return record

    def end(self, number: int, state: State, reason: str | None = None) -> None:
        """Timed."""
        super().end(number, state, reason)
        self.cpu.append(time.process_time())
        self.memory.append(psutil.Process().memory_info().rss)


def measure(trials: int) -> dict[str, str]:
    """Run a sweep of so many trials; a row of the table."""
    with tempfile.TemporaryDirectory(prefix="calsweep-scale-") as folder:
        sweep = parse_sweep(
            {
                "name": "scale",
                "dataset": "digits",
                "model": "small_cnn",
                "losses": ["focal", "mbls", "label_smoothing", "focal_calibration"],
                "training": {"epochs": EPOCHS},
                "search": {"trials": trials},
                "scheduler": {"grace_period": 1},
                "selection": {"finalists": 0},
            }
        )
        start = time.perf_counter()
        runner.run_sweep(sweep, folder, console=Console(quiet=True))
        seconds = time.perf_counter() - start
        start = time.perf_counter()
        command = [str(Path(sys.executable).with_name("calsweep")), "best", "--storage", folder]
        subprocess.run(command, check=True, capture_output=True)
        latency = time.perf_counter() - start
        size = sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file())
    timed = TimedLedger
    tenth = max(1, trials // 10)
    spent = [later - sooner for sooner, later in zip(timed.cpu, timed.cpu[1:], strict=False)]
    first, last = spent[:tenth], spent[-tenth:]
    asked, asked_last = timed.suggesting[:tenth], timed.suggesting[-tenth:]
    return {
        "trials": f"{trials:,}",
        "seconds": f"{seconds:.0f}",
        "CPU ms a trial: first tenth": f"{1000 * sum(first) / len(first):.1f}",
        "last tenth": f"{1000 * sum(last) / len(last):.1f}",
        "suggestion ms: first tenth": f"{1000 * sum(asked) / len(asked):.1f}",
        "last tenth ": f"{1000 * sum(asked_last) / len(asked_last):.1f}",
        "driver MiB more": f"{(timed.memory[-1] - timed.memory[0]) / 2**20:.0f}",
        "MLflow runs a second": f"{trials / seconds:.1f}",
        "`best` seconds": f"{latency:.1f}",
        "store MiB": f"{size / 2**20:.0f}",
    }


def main() -> None:
    """Measure each size and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("trials", nargs="*", type=int, default=[100, 1000])
    arguments = parser.parse_args()
    os.chdir(Path(__file__).parent.parent)
    trainables.tune_trainable.TuneTrial = ReplayTrial  # type: ignore[misc]
    runner.Ledger = TimedLedger  # type: ignore[attr-defined]
    with cluster.connected(None):
        for index, trials in enumerate(arguments.trials):
            row = measure(trials)
            if index == 0:
                print(f"| {' | '.join(row)} |\n|{' --- |' * len(row)}")
            print(f"| {' | '.join(row.values())} |", flush=True)


if __name__ == "__main__":
    main()
