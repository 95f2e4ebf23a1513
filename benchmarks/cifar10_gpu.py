"""Losses on all of CIFAR-10 with the fast recipe on a GPU, as three real sweeps.

    python -m benchmarks.cifar10_gpu FOLDER [--storage PATH] [--seconds 540] [--set KEY=VALUE]

FOLDER has ``train.parquet`` and ``test.parquet`` with the columns ``image`` and ``label``, or is a
folder of ``torchvision.datasets.CIFAR10``. The first sweep trains each loss at its first published
setting, the second searches settings of all losses, the third trains RefCal's two stages. Each
trains the best setting of each loss, and cross-entropy, with three fresh seeds. After so many
seconds the running sweep is interrupted; the same command continues it. Prints the tables of
benchmarks/results/real_data.md; the exit code is 1 while something is missing.
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from search_spaces import search_space
from sweeps.search.space import SearchSpace
from sweeps.sweep_file.loading import READY_MADE, parse_sweep

LOSSES: Final = (
    "label_smoothing",
    "focal",
    "focal_sample_dependent",
    "dual_focal",
    "focal_calibration",
    "inverse_focal",
    "r_aurc",
    "mbls",
    "cals_alm",
    "mmce",
    "brier",
)
OF_HEADS: Final = ("label_smoothing", "focal", "mbls", "mmce")
CLASSES: Final = 10
SETTINGS: Final = 48  # of the search, besides finalists
_SECONDS_TO_STOP: Final = 60.0


def main() -> int:
    """Run or continue the sweeps, and print the tables of those that have ended."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path, help="images of CIFAR-10")
    parser.add_argument("--storage", default="cifar10-gpu-store")
    parser.add_argument("--seconds", type=float, default=540.0)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    arguments = parser.parse_args()
    deadline = time.monotonic() + arguments.seconds
    files = Path(arguments.storage)
    files.mkdir(parents=True, exist_ok=True)
    ended = []
    for sections in sweeps_of(arguments.folder):
        name = sections["name"]
        file = files / f"{name}.yaml"
        file.write_text(yaml.safe_dump(sections, sort_keys=False))
        left = deadline - time.monotonic()
        if left < _SECONDS_TO_STOP or not done(file, arguments, left - _SECONDS_TO_STOP):
            print(f"{name}: not done; run this again to continue", flush=True)
            continue
        ended.append(name)
        calsweep("table", name, "--storage", arguments.storage, "--metrics", "ece,nll,error")
    return 0 if len(ended) == len(sweeps_of(arguments.folder)) else 1


def sweeps_of(folder: Path) -> list[dict[str, Any]]:
    """The sections of the three sweeps."""
    recipe = yaml.safe_load((READY_MADE / "recipes/fast-cifar10.yaml").read_text(encoding="utf-8"))
    common = {
        "dataset": dataset_of(folder),
        "model": recipe["model"],
        "training": recipe["training"],
        "scheduler": {"name": "none"},
        "reference": "none",
    }
    compared = {"per_loss": True, "seeds": 3}
    return [
        {
            "name": "published",
            **common,
            "losses": ["cross_entropy", *map(published, LOSSES)],
            "search": {"sampler": "tpe", "trials": 1 + len(LOSSES)},
            "selection": {**compared, "finalists": len(LOSSES)},
        },
        {
            "name": "searched",
            **common,
            "losses": ["cross_entropy", *LOSSES],
            "search": {"sampler": "tpe", "trials": SETTINGS},
            "selection": {**compared, "finalists": len(LOSSES)},
        },
        {
            "name": "two-stages",
            **common,
            "encoder": {
                "loss": {"name": "supcon", "hyperparameters": {"projection": 128}},
                "training": recipe["training"],
            },
            "losses": ["cross_entropy", *OF_HEADS],
            "training": {"epochs": 5, "batch_size": 512, "lr": 1.0, "weight_decay": 0.0},
            "search": {"sampler": "tpe", "trials": 1 + 2 * len(OF_HEADS)},
            "selection": {**compared, "finalists": len(OF_HEADS)},
        },
    ]


def dataset_of(folder: Path) -> dict[str, Any]:
    """The dataset section for a folder."""
    if not (folder / "train.parquet").is_file():
        return {"name": "cifar10", "root": str(folder), "validation": 5_000}
    files = {split: str(folder / f"{split}.parquet") for split in ("train", "test")}
    named = {"name": "parquet", **files, "image": "image", "label": "label"}
    return {**named, "title": "cifar10", "validation": 0.1}


def published(loss: str) -> dict[str, Any]:
    """A loss with its first published setting, which is not searched."""
    sweep = parse_sweep({"name": "any", "dataset": "digits", "losses": [loss]})
    settings = SearchSpace(sweep.losses).initial_settings(CLASSES)
    known: Mapping[str, Any] = next(s.hyperparameters for s in settings if s.loss == loss)
    return {"name": loss, "hyperparameters": dict(known)} if search_space(loss) else {"name": loss}


def done(file: Path, arguments: argparse.Namespace, seconds: float) -> bool:
    """Run or continue a sweep for some seconds; whether it has ended."""
    sets = [word for each in arguments.set for word in ("--set", each)]
    command = ["run", str(file), "--or-resume", "--storage", arguments.storage, *sets]
    process = subprocess.Popen([sys.executable, "-m", "calsweep", *command])
    try:
        return process.wait(timeout=seconds) == 0
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)  # trials resume from their checkpoints
        process.wait(timeout=_SECONDS_TO_STOP)
        return False


def calsweep(*words: str) -> None:
    """Run a command of calsweep."""
    subprocess.run([sys.executable, "-m", "calsweep", *words], check=True)


if __name__ == "__main__":
    sys.exit(main())
