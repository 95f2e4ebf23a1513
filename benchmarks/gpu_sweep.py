"""A small real sweep on GPUs, for ``benchmarks.gpu``.

    python -m benchmarks.gpu_sweep shared|workers|adaptive|own_loop|out_of_memory|assertion [--cpu]

With ``--cpu`` the same sweep runs without a GPU.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import Any, Final

from rich.console import Console

from sweeps.search.record import TrialRecord
from sweeps.service.running import run_sweep
from sweeps.sweep_file.loading import parse_sweep

_SHARED: Final = {"gpus_per_worker": 0.25}
_NETWORK: Final[dict[str, Any]] = {
    "model": {"name": "small_cnn"},
    "training": {"epochs": 4, "batch_size": 64, "lr": 0.05},
}


def _loop(name: str, trials: int) -> dict[str, Any]:
    return {
        "trainable": f"benchmarks.gpu_loops:{name}",
        "losses": ["focal"],
        "training": {"epochs": 2},
        "search": {"sampler": "tpe", "trials": trials},
        "scaling": _SHARED,
    }


SWEEPS: Final[dict[str, dict[str, Any]]] = {
    "shared": {
        **_NETWORK,
        "losses": ["focal", "mbls", "mmce"],
        "search": {"sampler": "tpe", "trials": 8},
        "scaling": _SHARED,
    },
    "workers": {
        **_NETWORK,
        "training": {**_NETWORK["training"], "sync_batch_norm": True},
        "losses": ["focal", "mbls", "mmce"],
        "search": {"sampler": "tpe", "trials": 3},
        "scaling": {"gpus_per_worker": 1.0, "num_workers": 2},
    },
    "adaptive": {
        **_NETWORK,
        "losses": ["adafocal", "cals_alm"],
        "search": {"sampler": "tpe", "trials": 4},
        "scaling": _SHARED,
    },
    "own_loop": _loop("train", 4),
    # Each trial exceeds its quarter of the GPU memory, and gets more when it is retried.
    "out_of_memory": _loop("take_much_memory", 2),
    # The process of each trial loses the GPU, and another process resumes the trial.
    "assertion": _loop("fail_an_assertion_once", 2),
}
_RETRIED: Final = ("out_of_memory", "assertion")


def main() -> int:
    """Run the sweep and print one line; 1 if a trial failed, or was not retried as expected."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("sweep", choices=SWEEPS)
    parser.add_argument("--cpu", action="store_true", help="train without a GPU")
    arguments = parser.parse_args()
    sections = {
        "name": "gpu",
        "dataset": {"name": "digits"},
        "selection": {"finalists": 0},
        **SWEEPS[arguments.sweep],
    }
    if arguments.cpu:
        sections["scaling"] = {**sections["scaling"], "gpus_per_worker": 0}
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        records = run_sweep(parse_sweep(sections), folder, console=Console(stderr=True)).records
    failed = [record for record in records if record.state == "failed"]
    for record in failed:
        print(f"trial {record.number} failed: {record.reason}")
    best = min((r.outcome["val_ece"] for r in records if r.state == "finished"), default=None)
    retried = sum(len(record.runs) > 1 for record in records)
    print(
        f"{len(records)} trials, {len(failed)} failed, {retried} retried, lowest val_ece {best}, "
        f"{time.monotonic() - start:.0f} s"
    )
    return 0 if passed(records, arguments.sweep in _RETRIED and not arguments.cpu) else 1


def passed(records: Sequence[TrialRecord], must_retry: bool) -> bool:
    """Whether a trial finished, none failed, and each was retried, or none."""
    retried = [len(record.runs) > 1 for record in records]
    ended = {record.state for record in records}
    return "finished" in ended and "failed" not in ended and set(retried) == {must_retry}


if __name__ == "__main__":
    sys.exit(main())
