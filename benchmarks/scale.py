"""Cost per trial in the driver as a sweep grows: python -m benchmarks.scale [TRIALS ...].

Trials replay recorded curves instead of training, so only the service is measured: Ray Tune,
Optuna, ASHA, records, progress, MLflow on SQLite. A short sweep on digits records the curves first.
Each size runs in a separate process. The table compares the first and the last tenth of the trials,
and lists the work after the last trial separately. ``--profile`` writes a cProfile of the driver's
main thread next to the table.
"""

import argparse
import cProfile
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from benchmarks.replay import CURVES, ReplayTrial
from sweeps.cluster import connection
from sweeps.results.result import SweepResult
from sweeps.search.record import TrialRecord
from sweeps.search.study import SweepStudy
from sweeps.service import running
from sweeps.store.sweep_store import SweepStore
from sweeps.sweep_file.loading import parse_sweep
from sweeps.sweep_file.schema import SweepFile
from sweeps.tracking.mirror import Mirror
from trainables.wrappers import one_process

LOSSES = ["focal", "dual_focal", "mbls"]
EPOCHS = 9
MIB = 2**20
MLFLOW = "mlflow"


def main() -> None:
    """Record curves, replay them in sweeps of each size, print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "trials", type=int, nargs="*", default=[100, 1000], help="numbers of trials"
    )
    parser.add_argument("--max-hours", type=float, help="end each search after that long")
    parser.add_argument("--profile", type=Path, help="folder for a cProfile of each size")
    parser.add_argument("--curves", help="a folder of recorded trials; default: record them now")
    parser.add_argument("--replay", help=argparse.SUPPRESS)  # the folder of one size's sweep
    arguments = parser.parse_args()
    os.chdir(Path(__file__).parent.parent)
    if arguments.replay:
        replay(arguments.trials[0], arguments.max_hours, Path(arguments.replay), arguments.profile)
        return
    with tempfile.TemporaryDirectory() as folder:
        os.environ[CURVES] = arguments.curves or record(f"{folder}/recorded")
        for trials in arguments.trials:
            command = [sys.executable, "-m", "benchmarks.scale", str(trials)]
            command += ["--replay", f"{folder}/{trials}"]
            for option in ("max_hours", "profile"):
                if value := getattr(arguments, option):
                    command += [f"--{option.replace('_', '-')}", str(value)]
            subprocess.run(command, check=True)


def record(folder: str) -> str:
    """Train a few real trials; returns the folder that contains their folders."""
    sweep = _sweep("recorded", {"name": "digits"}, {"name": "small_cnn"}, trials=20)
    with connection.connected(None):
        running.run_sweep(sweep, folder, console=Console(quiet=True))
    return SweepStore(folder, sweep.name).trials_folder.uri


def replay(trials: int, max_hours: float | None, folder: Path, profile: Path | None) -> None:
    """Run one sweep of replayed trials and print its part of the table."""
    one_process.TuneTrial = ReplayTrial  # type: ignore[misc]
    sweep = _sweep(
        "replayed",
        {"name": "digits"},  # which the recorded predictions are of
        {"name": "small_cnn"},
        trials=trials,
        max_hours=max_hours,
    )
    meter, profiler = Meter(), cProfile.Profile(time.thread_time)
    answered = 0.0

    def note(found: SweepResult) -> None:
        nonlocal answered
        answered = time.time()

    with connection.connected(None), meter.running():
        if profile:
            profiler.enable()
        result = running.run_sweep(sweep, str(folder), console=Console(quiet=True), on_answer=note)
        mirrored = time.time()
        profiler.disable()
    if profile:
        profile.mkdir(parents=True, exist_ok=True)
        profiler.dump_stats(profile / f"scale_{trials}.prof")
    report(meter, result.records)
    final = max(record.ended or 0.0 for record in result.records)
    _single("seconds from the last trial to the answer", answered - final)
    _single("seconds from there until MLflow has it all", mirrored - answered)
    start = time.perf_counter()
    command = [sys.executable, "-m", "sweeps.cli", "best", "--storage", str(folder)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    _single("calsweep best: seconds", time.perf_counter() - start)


def _single(title: str, figure: float) -> None:
    print(f"{title:46s}{'':12s}{figure:12.1f}", flush=True)


def _sweep(name: str, dataset: dict[str, Any], model: dict[str, Any], **search: Any) -> SweepFile:
    return parse_sweep(
        {
            "name": name,
            "dataset": dataset,
            "model": model,
            "losses": LOSSES,
            "training": {"epochs": EPOCHS},
            "search": {"sampler": "tpe", **search},
        }
    )


class Meter:
    """Measures CPU and memory of this process over time, and the CPU time of single calls."""

    def __init__(self) -> None:
        self._times: list[float] = []
        self._figures: dict[str, list[float]] = {"cpu": [], "resident": []}
        self._calls: dict[str, list[tuple[float, int, float]]] = defaultdict(list)
        self._stop = threading.Event()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Measure until the block ends."""
        timed: list[tuple[type, str, str]] = [(SweepStudy, "suggest", "suggest")]
        timed += [(Mirror, name, MLFLOW) for name in ("connect", "show", "complete")]
        for kind, name, heading in timed:
            setattr(kind, name, self._timed(heading, getattr(kind, name)))
        thread = threading.Thread(target=self._sample, daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._stop.set()
            thread.join()

    def at(self, figure: str, moment: float) -> float:
        """``cpu`` seconds or ``resident`` bytes at a moment, interpolated."""
        return float(np.interp(moment, self._times, self._figures[figure]))

    def between(self, name: str, start: float, end: float) -> float:
        """CPU seconds of calls that ended in a span of time."""
        return sum(cpu for when, _, cpu in self._calls[name] if start < when <= end)

    def of(self, name: str, numbers: range) -> float:
        """CPU seconds of calls for the trials with these numbers."""
        return sum(cpu for _, number, cpu in self._calls[name] if number in numbers)

    def _sample(self) -> None:
        while not self._stop.wait(0.1):
            pages = int(Path("/proc/self/statm").read_text().split()[1])
            self._times.append(time.time())
            self._figures["cpu"].append(time.process_time())
            self._figures["resident"].append(pages * resource.getpagesize())

    def _timed(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def timed(owner: Any, *arguments: Any) -> Any:
            start = time.thread_time()
            try:
                return function(owner, *arguments)
            finally:
                now, cpu = time.time(), time.thread_time() - start
                trial = arguments[0] if arguments else -1
                number = trial.number if isinstance(trial, TrialRecord) else trial
                self._calls[name].append((now, number, cpu))

        return timed


def report(meter: Meter, records: list[TrialRecord]) -> None:
    """Print the figures of the first and the last tenth of the trials.

    A separate thread writes MLflow with a delay. Its CPU time is attributed to trials by their
    number, all other CPU time by its moment.
    """
    searched = [record for record in records if record.searched]
    ends = sorted(record.ended or 0.0 for record in searched)
    tenth = max(1, len(ends) // 10)
    # The first tenth begins when a trial has ended: until then the workers start.
    first = Span(ends[0], ends[tenth], range(tenth), tenth)
    last = Span(ends[-1 - tenth], ends[-1], range(len(ends) - tenth, len(ends)), tenth)

    def line(title: str, digits: int, figure: Callable[[Span], float]) -> None:
        one, other = figure(first), figure(last)
        ratio = f"{other / one:8.2f}" if one else ""
        print(f"{title:46s}{one:12.{digits}f}{other:12.{digits}f}{ratio}")

    def mlflow(span: Span) -> float:
        return meter.of(MLFLOW, span.numbers) / span.trials

    def others(span: Span) -> float:
        cpu = meter.at("cpu", span.end) - meter.at("cpu", span.start)
        return (cpu - meter.between(MLFLOW, span.start, span.end)) / span.trials

    print(f"\n{f'{len(records)} trials':46s} first tenth  last tenth   ratio")
    line("driver: CPU ms per trial", 1, lambda span: 1000 * (others(span) + mlflow(span)))
    line("  of it suggesting", 1, lambda s: 1000 * meter.of("suggest", s.numbers) / s.trials)
    line("  of it writing to MLflow", 1, lambda span: 1000 * mlflow(span))
    line(
        "driver: resident MiB at the end of the tenth",
        0,
        lambda s: meter.at("resident", s.end) / MIB,
    )
    line("trials ended per second", 1, lambda span: span.trials / (span.end - span.start))


@dataclass(frozen=True)
class Span:
    """A tenth of the trials: from when to when they ended, their numbers, how many."""

    start: float
    end: float
    numbers: range
    trials: int


if __name__ == "__main__":
    main()
