"""Times the first command of the README, also against an older build in turns.

    python -m benchmarks.quickstart [--against COMMIT] [--runs 3]
                                   [OPTION OF calsweep run ...]

CPU seconds are those of all processes that the command starts, Ray's included. The environment of
the older build is made in a temporary folder, with git and uv. A trial is the same in both builds
if its setting, its seed, its epochs and every digit of what every trial reports on the validation
split are.
"""

import argparse
import ctypes
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median

import psutil

from sweeps.search.record import TrialRecord
from sweeps.store.sweep_store import SweepStore
from trainables.metrics import EPOCH_METRICS

ROOT = Path(__file__).parent.parent
ADOPT_ORPHANS = 36  # PR_SET_CHILD_SUBREAPER of prctl(2)
SECONDS_BETWEEN_SAMPLES = 0.1
NOW = "this build"


@dataclass(frozen=True)
class Run:
    """One quickstart: seconds until the first epoch is done and until the end, and its results."""

    first_epoch: float
    cpu_until_first_epoch: float
    whole: float
    cpu_of_whole: float
    trials: frozenset[str]
    result: str


def main() -> None:
    """Run the quickstart in empty folders, and print times and results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--against", metavar="COMMIT", help="an older build")
    parser.add_argument("--runs", type=int, default=1, help="of each build")
    arguments, options = parser.parse_known_args()
    adopt_orphans = partial(ctypes.CDLL(None).prctl, ADOPT_ORPHANS)
    with ExitStack() as stack:
        adopt_orphans(1)
        stack.callback(adopt_orphans, 0)
        builds = {NOW: Path(sys.executable)}
        if arguments.against:
            builds[arguments.against] = stack.enter_context(built(arguments.against))
        runs: dict[str, list[Run]] = {name: [] for name in builds}
        for _ in range(arguments.runs):
            for name, python in builds.items():
                runs[name].append(quickstart(python, options))
                print(f"{name:12s} {row(runs[name][-1:])}", flush=True)
    print("\nMedians")
    for name, of_build in runs.items():
        print(f"{name:12s} {row(of_build)}")
        print("\n".join(sorted({f"{len(run.trials)} trials. {run.result}" for run in of_build})))
    if arguments.against:
        print_comparison(runs[NOW], runs[arguments.against])


@contextmanager
def built(commit: str) -> Iterator[Path]:
    """Context: the Python of an environment that has the package as of a commit."""
    with tempfile.TemporaryDirectory() as folder:
        source = f"{folder}/source"
        worktree = ["git", "-C", str(ROOT), "worktree"]
        subprocess.run([*worktree, "add", "--quiet", "--detach", source, commit], check=True)
        try:
            sync = ["uv", "sync", "--quiet", "--project", source, "--python", sys.executable]
            here = {name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"}
            subprocess.run(sync, check=True, env=here)
            yield Path(source) / ".venv/bin/python"
        finally:
            subprocess.run([*worktree, "remove", "--force", source], check=True)


def quickstart(python: Path, options: Sequence[str] = ()) -> Run:
    """Run it once in an empty folder."""
    command = [str(python), "-m", "sweeps.cli", "run", "quickstart", *options]
    nowhere = subprocess.DEVNULL
    with tempfile.TemporaryDirectory() as folder:
        start, before, others = time.time(), cpu_of_ended(), children()
        process = subprocess.Popen(command, cwd=folder, stdout=nowhere, stderr=nowhere)
        used = {}
        while process.poll() is None:
            used[time.time()] = cpu_of_ended() + cpu_of_living() - before
            time.sleep(SECONDS_BETWEEN_SAMPLES)
        whole = time.time() - start
        if process.returncode:
            raise SystemExit(f"calsweep run quickstart failed, exit code {process.returncode}")
        wait_for_orphans(others)
        store = SweepStore(str(Path(folder) / "calsweep-store"), "quickstart")
        records, answer = store.load_records(), store.load_answer() or {}
    first = min(entry["timestamp"] for record in records for entry in record.history)
    return Run(
        first_epoch=first - start,
        cpu_until_first_epoch=max(cpu for at, cpu in used.items() if at <= first),
        whole=whole,
        cpu_of_whole=max(used.values()),  # at the end, those of killed workers are missing
        trials=frozenset(map(outcome, records)),
        result=answer["why"][0],
    )


def outcome(record: TrialRecord) -> str:
    """What a trial trained, and the validation metrics that every trial has."""
    last = record.history[-1]
    names = [f"val_{name}{scaled}" for name in EPOCH_METRICS for scaled in ("", "_scaled")]
    numbers = {name: last[name] for name in names}
    return f"{record.setting} {record.seed} {record.epochs} {numbers}"


def cpu_of_ended() -> float:
    """CPU seconds of the processes below this one that have ended."""
    times = os.times()
    return times.children_user + times.children_system


def cpu_of_living() -> float:
    """CPU seconds of the processes below this one, with those of their ended children."""
    found = 0.0
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            found += sum(process.cpu_times()[:4])
    return found


def wait_for_orphans(others: set[int]) -> None:
    """Wait for the processes that the driver leaves behind, so that their CPU seconds count."""
    while orphans := children() - others:
        for pid in orphans:
            with suppress(ChildProcessError):
                os.waitpid(pid, 0)


def children() -> set[int]:
    """The processes that this one has started or adopted."""
    return {process.pid for process in psutil.Process().children()}


def row(runs: list[Run]) -> str:
    """Medians of the times."""
    return (
        f"first epoch after {middle(runs, 'first_epoch'):.1f} s "
        f"(CPU {middle(runs, 'cpu_until_first_epoch'):.1f} s), "
        f"whole {middle(runs, 'whole'):.1f} s (CPU {middle(runs, 'cpu_of_whole'):.1f} s)"
    )


def middle(runs: list[Run], name: str) -> float:
    """Median of an attribute."""
    return median(getattr(run, name) for run in runs)


def print_comparison(ours: list[Run], theirs: list[Run]) -> None:
    """Ratios of the medians, and how many trials are the same."""
    for name in ("first_epoch", "cpu_until_first_epoch", "whole", "cpu_of_whole"):
        print(f"{name:22s} {middle(ours, name) / middle(theirs, name):.2f} of the older build")
    for mine, other in zip(ours, theirs, strict=True):
        same = len(mine.trials & other.trials)
        print(f"same trials: {same} of {len(mine.trials)} and {len(other.trials)}")


if __name__ == "__main__":
    main()
