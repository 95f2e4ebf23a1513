"""Memory of each additional concurrent trial: python -m benchmarks.memory [--images 50000].

Trials of one sweep run concurrently on random 32x32 colour images in Ray's object store. The memory
of a trial's process is its private pages, which would be freed if it ended. The object store, which
all trials share, is listed separately.
"""

import argparse
import os
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
from rich.console import Console

from sweeps.cluster import connection
from sweeps.service import running
from sweeps.sweep_file.loading import parse_sweep
from trainables.data.core.base import Dataset, Split
from trainables.data.kinds.arrays import Images

MIB = 2**20
_ACTORS = (b"ray::TuneTrial", b"ray::ResourceTrainable")


def images(*, seed: int, count: int = 50_000) -> Dataset:
    """Random images of CIFAR's size."""
    draw = np.random.default_rng(seed)

    def split(size: int) -> Split:
        data = draw.integers(0, 255, (size, 3, 32, 32), dtype=np.uint8)
        return Split(data, np.arange(size) % 10)

    return Dataset(
        "images",
        split(count),
        split(500),
        split(500),
        tuple("abcdefghij"),
        Images((3, 32, 32), (0.5,) * 3, (0.5,) * 3),
    )


def main() -> None:
    """Run two concurrent trials and print the memory of each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=50_000, help="size of the dataset")
    arguments = parser.parse_args()
    os.chdir(Path(__file__).parent.parent)
    dataset_mib = arguments.images * 3 * 32 * 32 / MIB
    peaks: dict[int, dict[str, float]] = {}
    stop = threading.Event()
    watcher = threading.Thread(target=watch, args=(peaks, stop), daemon=True)
    with tempfile.TemporaryDirectory() as folder, connection.connected(None):
        sweep = parse_sweep(
            {
                "name": "memory",
                "dataset": {"name": "benchmarks.memory:images", "count": arguments.images},
                "model": {"name": "small_cnn"},
                "losses": ["focal"],
                "training": {"epochs": 1, "batch_size": 128},
                "search": {"sampler": "tpe", "trials": 2},
                "selection": {"finalists": 0, "seeds": 0},
            }
        )
        watcher.start()
        running.run_sweep(sweep, folder, console=Console(quiet=True))
        stop.set()
        watcher.join()
    print(f"dataset {dataset_mib:.0f} MiB, once in the object store")
    print(
        f"{'trial process':16s}{'private MiB':>13s}{'all resident MiB':>18s}{'of it shared':>14s}"
    )
    for pid, peak in sorted(peaks.items()):
        shared = peak["Rss"] - peak["private"]
        print(f"{pid:<16d}{peak['private']:13.0f}{peak['Rss']:18.0f}{shared:14.0f}")


def watch(peaks: dict[int, dict[str, float]], stop: threading.Event) -> None:
    """Record the peak private and resident memory of the process of every trial."""
    while not stop.is_set():
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and is_trial(entry):
                now = memory(entry)
                peak = peaks.setdefault(int(entry.name), now)
                for name, value in now.items():
                    peak[name] = max(peak[name], value)
        time.sleep(0.2)


def is_trial(process: Path) -> bool:
    """Whether a process is one of Ray's actors that runs trials."""
    try:
        # Ray adds a name of its own to a trainable that asks for resources.
        return process.joinpath("cmdline").read_bytes().startswith(_ACTORS)
    except OSError:
        return False


def memory(process: Path) -> dict[str, float]:
    """Private and resident memory of a process, in MiB."""
    try:
        lines = process.joinpath("smaps_rollup").read_text().splitlines()[1:]
    except OSError:
        return {"private": 0.0, "Rss": 0.0}
    values = {
        key: int(rest.split()[0]) / 1024 for key, _, rest in (x.partition(":") for x in lines)
    }
    private = values["Private_Clean"] + values["Private_Dirty"]
    return {"private": private, "Rss": values["Rss"]}


if __name__ == "__main__":
    main()
