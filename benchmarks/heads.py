"""A sweep of heads on the features of a frozen network, with Ray, all records and MLflow.

    python -m benchmarks.heads [--heads 30] [--epochs 20] [--samples 10000] [--debug]

The network is the identity on 384 random features. The time is from the call to the result; CPU
seconds are those of this process and of all that it starts.
"""

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
from torch import nn

import calsweep
from benchmarks.further_sweeps import cpu_in_all
from trainables.models import Classifier

FEATURES = 384
CLASSES = 10


def identity(*, input_shape: tuple[int], num_classes: int) -> Classifier:
    """A network whose features are its inputs."""
    return Classifier(nn.Identity(), nn.Linear(input_shape[0], num_classes))


def main() -> None:
    """Run the sweep and print its time."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--heads", type=int, default=30)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--samples", type=int, default=10_000)
    parser.add_argument("--debug", action="store_true", help="without Ray")
    given = parser.parse_args()
    draw = np.random.default_rng(0)
    labels = draw.integers(CLASSES, size=given.samples)
    centres = 0.15 * draw.normal(size=(CLASSES, FEATURES))
    inputs = (centres[labels] + draw.normal(size=(given.samples, FEATURES))).astype(np.float32)
    with tempfile.TemporaryDirectory() as folder:
        np.savez(Path(folder) / "rows.npz", x=inputs, y=labels)
        sweep = {
            "name": "heads",
            "dataset": {"name": "npz", "train": f"{folder}/rows.npz"},
            "model": {"name": "benchmarks.heads:identity", "frozen": True},
            "losses": ["focal", "dual_focal", "mbls", "label_smoothing"],
            "training": {"epochs": given.epochs, "lr": 0.05},
            "search": {"trials": given.heads, "sampler": "tpe"},
            "scheduler": {"name": "none"},
            "selection": {"finalists": 0},
        }
        start, cpu = time.perf_counter(), cpu_in_all()
        result = calsweep.run(sweep, storage=f"{folder}/store", progress=False, debug=given.debug)
        seconds, used = time.perf_counter() - start, cpu_in_all() - cpu
        print("| heads | seconds | seconds of CPU |\n| --- | --- | --- |")
        print(f"| {len(result.table())} | {seconds:.1f} | {used:.1f} |", flush=True)


if __name__ == "__main__":
    main()
