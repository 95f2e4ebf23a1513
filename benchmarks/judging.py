"""How long ``calsweep judge`` takes on a large file of predictions.

``python -m benchmarks.judging [--samples 50000] [--classes 1000]`` draws logits and labels, writes
them to an npz file in a temporary folder, and times the command on it, its start included.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np


def write_predictions(file: Path, samples: int, classes: int) -> None:
    """Overconfident logits, float32, and labels drawn from the probabilities they should give."""
    random = np.random.default_rng(0)
    truth = 2.5 * random.standard_normal((samples, classes), dtype=np.float32)
    labels = (truth + random.gumbel(size=truth.shape)).argmax(axis=1)
    np.savez(file, logits=1.5 * truth, labels=labels)


def main() -> None:
    """Print the seconds of some runs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=50_000)
    parser.add_argument("--classes", type=int, default=1000)
    parser.add_argument("--runs", type=int, default=3)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "predictions.npz"
        write_predictions(file, given.samples, given.classes)
        command = [sys.executable, "-m", "calsweep", "judge", str(file)]
        for _ in range(given.runs):
            start = time.perf_counter()
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            print(f"{given.samples:,} x {given.classes:,}: {time.perf_counter() - start:.1f} s")


if __name__ == "__main__":
    main()
