"""A small real sweep on GPUs, for ``benchmarks.gpu``.

python -m benchmarks.gpu_sweep GPUS_PER_WORKER NUM_WORKERS
"""

import sys
import tempfile
import time

from rich.console import Console

from sweeps.runner import run_sweep
from sweeps.sweep_file.loading import parse_sweep


def main() -> int:
    """Run it and print one line; 1 if a trial failed."""
    gpus, workers = float(sys.argv[1]), int(sys.argv[2])
    sweep = parse_sweep(
        {
            "name": "gpu",
            "dataset": {"name": "digits"},
            "model": {"name": "small_cnn"},
            "losses": ["focal", "mbls", "mmce"],
            "training": {"epochs": 4, "batch_size": 64, "lr": 0.05, "sync_batch_norm": workers > 1},
            "search": {"trials": 8 if workers == 1 else 3},
            "selection": {"finalists": 0},
            "scaling": {"gpus_per_worker": gpus, "num_workers": workers},
        }
    )
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        records = run_sweep(sweep, folder, console=Console(stderr=True)).records
    failed = [record for record in records if record.state == "failed"]
    for record in failed:
        print(f"trial {record.number} failed: {record.reason}")
    best = min((r.outcome["val_ece"] for r in records if r.state == "finished"), default=None)
    print(
        f"{len(records)} trials, {len(failed)} failed, {workers} × {gpus:g} GPU each, lowest "
        f"val_ece {best}, {time.monotonic() - start:.0f} s"
    )
    return 1 if failed or best is None else 0


if __name__ == "__main__":
    sys.exit(main())
