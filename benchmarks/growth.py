"""Time and memory to read sweeps with very many trials: python -m benchmarks.growth WHAT [TRIALS].

``records`` measures the commands that read a sweep, each in a separate process, with its peak
memory. ``s3`` resumes a finished sweep in a local S3 (moto's server): once with only the files of
the trials, as earlier versions of calsweep left them, and once with the blocks that the first
resume writes. ``resume`` is timed until the result is printed. The records of the trials are
synthetic, as large as those of finalists with 27 epochs, and every second trial was stopped at a
rung.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from sweeps.planning.data import load_data
from sweeps.results.result import SweepResult
from sweeps.search.space import SearchSpace
from sweeps.store.identity import identify, identity_files
from sweeps.store.sweep_store import SweepStore
from sweeps.sweep_file.loading import parse_sweep
from sweeps.sweep_file.schema import SweepFile
from tests.harness.object_store import BUCKET, ObjectStore

NAME = "grown"
EPOCHS, RUNGS = 27, (3, 9)
SPACE = {"focal": ["gamma"], "dual_focal": ["gamma"], "mbls": ["margin", "lam"]}


def main() -> None:
    """Run the selected measurement."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "what", choices=["records", "s3"], help="records on a local disk, or on s3://"
    )
    parser.add_argument("trials", type=int, nargs="?", default=10_000, help="number of trials")
    parser.add_argument("--read", nargs=2, help=argparse.SUPPRESS)  # what, and the storage
    arguments = parser.parse_args()
    if arguments.read:
        read(*arguments.read)
        return
    with tempfile.TemporaryDirectory() as folder:
        make(folder, arguments.trials)
        print(f"{arguments.trials} trials", flush=True)
        if arguments.what == "records":
            for command in ("resume", "show", "best", "list", "report"):
                of_a_process(command, folder)
        else:
            with local_s3(folder) as storage:
                for command in ("resume at first", "resume, with blocks"):
                    of_a_process(command, storage)


def of_a_process(command: str, storage: str) -> None:
    """Run a command in a separate process, which prints its line of the table."""
    arguments = [sys.executable, "-m", "benchmarks.growth", "records", "--read", command, storage]
    subprocess.run(arguments, check=True)


def read(command: str, storage: str) -> None:
    """Do the work of a command, and print its duration and peak memory."""
    from sweeps.service import running
    from sweeps.service.reading import finding, writing

    if command.startswith("resume"):  # an MLflow that cannot be written: the answer waits for none
        os.environ["MLFLOW_TRACKING_URI"] = "sqlite:////proc/none/mlflow.db"
    start = time.perf_counter()

    def answered(found: SweepResult) -> None:
        raise KeyboardInterrupt  # what follows is MLflow

    if command == "show":
        finding.read_answer(NAME, storage)
    elif command == "best":
        finding.find_best(storage)
    elif command == "list":
        finding.overviews(storage)
    elif command == "report":
        writing.write_report(NAME, storage, f"{tempfile.mkdtemp()}/report.html")
    else:
        with suppress(KeyboardInterrupt):
            running.resume_sweep(NAME, storage, console=Console(quiet=True), on_answer=answered)
    seconds = time.perf_counter() - start
    # What getrusage tells begins with what the process that started this one had.
    status = dict(row.split(":", 1) for row in Path("/proc/self/status").read_text().splitlines())
    most = int(status["VmHWM"].split()[0]) / 1024
    print(f"{command:24s}{seconds:10.1f} s{most:10.0f} MiB", flush=True)


def make(folder: str, trials: int) -> None:
    """Create a finished sweep in a local storage."""
    sweep = parse_sweep(
        {
            "name": NAME,
            "dataset": {"name": "digits"},
            "model": {"name": "small_cnn"},
            "losses": list(SPACE),
            "training": {"epochs": EPOCHS},
            "search": {"sampler": "tpe", "trials": trials},
            "selection": {"finalists": 0, "seeds": 0},
        }
    )
    store = SweepStore(folder, NAME)
    store.create(sweep, files=identity_files(identify(sweep.named, load_data(sweep))))
    for values in made_up(sweep, trials):
        own = Path(store.trial_folder(values["number"]).path)
        own.mkdir(parents=True)
        (own / "trial.json").write_text(json.dumps(values))


def made_up(sweep: SweepFile, trials: int) -> Iterator[dict[str, Any]]:
    """Synthetic records of finished trials, with the content of their files."""
    draw = np.random.default_rng(0)
    initial = SearchSpace(sweep.losses).initial_settings(10)
    for number in range(trials):
        loss = list(SPACE)[number % len(SPACE)]
        values = {name: float(draw.uniform(0.1, 1)) for name in SPACE[loss]}
        if first := number < len(initial):
            loss, values = initial[number].loss, initial[number].hyperparameters
        stopped = number % 2 == 1 and not first
        epochs = RUNGS[number % 4 // 2] if stopped else EPOCHS
        began = 1.7e9 + number
        history = []
        for epoch in range(1, epochs + 1):
            names = metrics_after(epoch)
            metrics = zip(names, draw.uniform(0.05, 0.3, len(names)).tolist(), strict=True)
            history.append({"epoch": epoch, "timestamp": began + epoch / 100, **dict(metrics)})
        yield {
            "number": number,
            "role": "search" if not first else "published" if number else "baseline",
            "loss": loss,
            "hyperparameters": values,
            "seed": 0,
            "started": began,
            "state": "stopped" if stopped else "finished",
            "reason": f"val_nll too high after epoch {epochs}" if stopped else None,
            "ended": began + 1,
            "history": history,
            "runs": [[began, began + 1]],
        }


def metrics_after(epoch: int) -> Sequence[str]:
    """Names of reported metrics: few after most epochs, more at a rung, all at the end."""
    from trainables.metrics import EPOCH_METRICS, METRIC_NAMES

    names = ["train_loss", "lr", *(f"val_{name}" for name in EPOCH_METRICS)]
    if epoch == EPOCHS or epoch in RUNGS:
        names += ["temperature", "temperature_at_bound"]
        shown = METRIC_NAMES if epoch == EPOCHS else EPOCH_METRICS
        endings = ("", "_low", "_high") if epoch == EPOCHS else ("",)
        for split in ("val", "test"):
            for scaled in ("", "_scaled"):
                names += [f"{split}_{name}{scaled}{end}" for name in shown for end in endings]
    return list(dict.fromkeys(names))


@contextmanager
def local_s3(folder: str) -> Iterator[str]:
    """Copy a folder to a local S3, and yield the URI of the storage."""
    store = ObjectStore()
    os.environ |= store.environment
    files = [path for path in Path(folder).rglob("*") if path.is_file()]

    def put(path: Path) -> None:
        key = f"calsweep/{path.relative_to(folder)}"
        store.client.put_object(Bucket=BUCKET, Key=key, Body=path.read_bytes())
        if path.name == "trial.json":  # and what else a trial leaves
            other = key.replace(path.name, "predictions_test.parquet")
            store.client.put_object(Bucket=BUCKET, Key=other, Body=b"-")

    try:
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(put, files))
        yield f"s3://{BUCKET}/calsweep"
    finally:
        store.stop()


if __name__ == "__main__":
    main()
