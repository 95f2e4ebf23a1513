"""Overhead of a trial besides its training, compared with plain Ray Tune in the same run.

    python -m benchmarks.overhead [--trials 100] [--peer-trials 10]

Both sides run trials with an empty training step, in one Ray session. calsweep uses everything that
a sweep uses: actor reuse, Optuna, ASHA, a record and a checkpoint per trial on disk, MLflow on
SQLite. The peer is ``ray.tune`` with a function trainable, as in its documentation.
"""

import argparse
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from sweeps.cluster import connection
from sweeps.service import running
from sweeps.sweep_file.loading import parse_sweep
from trainables.data.core.base import Dataset, Split
from trainables.data.kinds.arrays import Images
from trainables.models.base import Classifier


def tiny_data(*, seed: int) -> Dataset:
    """Sixteen random images, so that an epoch costs next to nothing."""
    draw = np.random.default_rng(seed)

    def split() -> Split:
        images = draw.integers(0, 255, (16, 1, 8, 8), dtype=np.uint8)
        return Split(images, np.tile(np.arange(2), 8))

    samples = Images((1, 8, 8), (0.5,), (0.5,))
    return Dataset("tiny", split(), split(), split(), ("no", "yes"), samples)


def tiny_model(*, input_shape: tuple[int, int, int], num_classes: int) -> Classifier:
    """A linear classifier."""
    from torch import nn

    return Classifier(nn.Flatten(), nn.Linear(64, num_classes))


def main() -> None:
    """Time both sides and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=100, help="trials of calsweep")
    parser.add_argument("--peer-trials", type=int, default=10, help="trials of plain Ray Tune")
    arguments = parser.parse_args()
    os.chdir(Path(__file__).parent.parent)
    with tempfile.TemporaryDirectory() as folder, connection.connected(None):
        rows = [
            ("ray.tune, function trainable, no reuse", *peer(arguments.peer_trials, folder)),
            ("calsweep, all its records and MLflow", *ours(arguments.trials, folder)),
        ]
    print(f"{'':42s}{'trials':>8s}{'seconds':>10s}{'per trial':>11s}{'after the first':>17s}")
    for name, trials, seconds, later in rows:
        print(f"{name:42s}{trials:8d}{seconds:10.1f}{seconds / trials:11.3f}{later:17.3f}")
    print(f"ratio per trial: {rows[0][2] / rows[0][1] / (rows[1][2] / rows[1][1]):.1f}")


def peer(trials: int, folder: str) -> tuple[int, float, float]:
    """Trials, seconds, and seconds per trial after the first, of plain Ray Tune."""
    from ray import tune  # reads the environment variables of `connected` when it is imported

    def train(config: dict[str, Any]) -> None:
        tune.report({"val_nll": config["gamma"]})

    ends: list[float] = []

    class Clock(tune.Callback):
        def on_trial_complete(self, **_: Any) -> None:
            ends.append(time.perf_counter())

    start = time.perf_counter()
    tune.Tuner(
        tune.with_resources(train, {"cpu": 1}),
        param_space={"gamma": tune.uniform(0, 10)},
        tune_config=tune.TuneConfig(num_samples=trials),
        run_config=tune.RunConfig(storage_path=folder, verbose=0, callbacks=[Clock()]),
    ).fit()
    return trials, time.perf_counter() - start, (ends[-1] - ends[0]) / (trials - 1)


def ours(trials: int, folder: str) -> tuple[int, float, float]:
    """The same for calsweep."""
    sweep = parse_sweep(
        {
            "name": "empty",
            "dataset": {"name": "benchmarks.overhead:tiny_data"},
            "model": {"name": "benchmarks.overhead:tiny_model"},
            "losses": ["focal"],
            "training": {"epochs": 1, "batch_size": 16},
            "search": {"sampler": "tpe", "trials": trials},
            "selection": {"finalists": 0, "seeds": 0},
        }
    )
    start = time.perf_counter()
    result = running.run_sweep(sweep, folder, console=Console(quiet=True))
    seconds = time.perf_counter() - start
    ends = sorted(record.ended or 0.0 for record in result.records)
    return trials, seconds, (ends[-1] - ends[0]) / (trials - 1)


if __name__ == "__main__":
    main()
