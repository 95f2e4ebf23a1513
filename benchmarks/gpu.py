"""All tests and benchmarks that need a GPU, in one command.

    python -m benchmarks.gpu [--output FILE]

It needs no network. It runs real sweeps whose trials share a GPU: with built-in and adaptive
losses, a custom loop, trials that exceed their share of the memory, and trials that trigger a
device-side assertion. Then it measures the speed of the training loop, alone and in eight
processes, the memory of trials, and the speed of the losses; and it runs the tests marked ``gpu``.
With two GPUs, another sweep has two workers per trial (NCCL).

Each part is printed as it ends, and kept in FILE as a Markdown table and beside it as JSON
(gpu.md and gpu.json by default). A run takes 540 seconds at most; the next one continues with the
parts that are not in the JSON file. The exit code is 2 without a GPU, and 1 if a part failed or is
missing.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

ROOT = Path(__file__).parent.parent
SWEEPS = (
    ("sweep, trials share a GPU", "shared"),
    ("sweep, losses that adapt", "adaptive"),
    ("sweep, a custom loop", "own_loop"),
    ("sweep, too little memory", "out_of_memory"),
    ("sweep, failed assertions", "assertion"),
)
TWO_WORKERS = "sweep, two workers by NCCL"
CIFAR = "airbench_cifar"
_SECONDS = 540


@dataclass(frozen=True)
class Part:
    """One row of the table.

    Attributes:
        name: Name of the part.
        passed: Whether it succeeded.
        figure: Summary of the result.
        seconds: Duration.
        printed: The whole output.
    """

    name: str
    passed: bool
    figure: str
    seconds: float
    printed: str

    @property
    def row(self) -> str:
        """Its row of the table in Markdown."""
        ended = "passed" if self.passed else "FAILED"
        return f"| {self.name} | {ended} | {self.figure} | {self.seconds:.0f} s |"


@dataclass(frozen=True)
class Plan:
    """A part to run: its name, seconds that it may take, summary of its output, and module."""

    name: str
    limit: int
    figure: Callable[[str], str]
    module: tuple[str, ...]


def main() -> int:
    """Run all parts and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("gpu.md"), help="file of the table")
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        print(
            f"no GPU: PyTorch {torch.__version__} can use none on this machine; run this on one "
            "that has a GPU and a PyTorch built for it",
            file=sys.stderr,
        )
        return 2
    deadline = time.monotonic() + _SECONDS
    machine = machine_facts()
    path = arguments.output.with_suffix(".json")
    done = earlier_parts(path, machine)
    for plan in plans():
        if plan.name in done:
            continue
        left = deadline - time.monotonic()
        if left < plan.limit:
            print(f"{plan.name}: not reached; run this again to continue", flush=True)
            continue
        part = done[plan.name] = run(plan)
        print(f"\n=== {part.row}\n{part.printed}", flush=True)
        path.write_text(json.dumps({"machine": machine, "parts": list(map(asdict, done.values()))}))
        arguments.output.write_text(table(list(done.values()), machine) + "\n")
    print(table(list(done.values()), machine))
    return 0 if len(done) == len(plans()) and all(part.passed for part in done.values()) else 1


def plans() -> list[Plan]:
    """All parts, in their order."""
    sweeps = [Plan(name, 120, last_line, ("benchmarks.gpu_sweep", each)) for name, each in SWEEPS]
    if torch.cuda.device_count() > 1:
        sweeps.append(Plan(TWO_WORKERS, 150, last_line, ("benchmarks.gpu_sweep", "workers")))
    training = "benchmarks.training", "--device", "cuda", "--shape", "3", "32", "32"
    small, full = (*training, "--batch-size", "512", "--samples", "51200"), ("--model", CIFAR)
    return [
        *sweeps,
        Plan("training, small_cnn", 60, training_speed, small),
        Plan(f"training, {CIFAR}", 90, training_speed, (*small, *full)),
        Plan("training, 8 trials share a GPU", 90, last_line, (*small, "--processes", "8")),
        Plan("memory of a trial", 90, last_line, ("benchmarks.gpu_memory",)),
        Plan("losses", 60, worst_loss, ("benchmarks.losses", "--device", "cuda", "--rounds", "30")),
        Plan("tests marked gpu", 240, last_line, ("pytest", "-q", "-m", "gpu", "tests")),
    ]  # fmt: skip


def earlier_parts(path: Path, machine: str) -> dict[str, Part]:
    """The parts of a run on the same machine that did not reach its end."""
    if not path.exists():
        return {}
    found = json.loads(path.read_text())
    parts = [Part(**each) for each in found["parts"]] if found["machine"] == machine else []
    return {part.name: part for part in parts}


def run(plan: Plan) -> Part:
    """Run ``python -m MODULE``, for ``limit`` seconds at most."""
    print(f"{plan.name} ...", file=sys.stderr, flush=True)
    start = time.monotonic()
    with tempfile.TemporaryFile("w+") as stream:
        try:
            code = subprocess.run(
                [sys.executable, "-m", *plan.module],
                check=False,
                cwd=ROOT,
                stdout=stream,
                stderr=subprocess.STDOUT,
                timeout=plan.limit,
            ).returncode
        except subprocess.TimeoutExpired:
            code = None
        seconds = time.monotonic() - start
        stream.seek(0)
        printed = stream.read()
    figure = f"not done after {plan.limit} s" if code is None else plan.figure(printed)
    return Part(plan.name, code == 0, figure, seconds, printed)


def last_line(printed: str) -> str:
    """The last line."""
    lines = printed.strip().splitlines()
    return lines[-1].strip("= ") if lines else "printed nothing"


def worst_loss(printed: str) -> str:
    """The loss with the slowest training step of ``small_cnn``, against cross-entropy."""
    from trainables.losses import available_losses

    rows = [line.split() for line in printed.splitlines()]
    ratios = {
        row[0]: float(row[2]) for row in rows if len(row) > 2 and row[0] in available_losses()
    }
    if not ratios:
        return last_line(printed)
    slowest = max(ratios, key=lambda name: ratios[name])
    return f"slowest: {slowest}, {ratios[slowest]:.1f} times cross-entropy (small_cnn)"


def training_speed(printed: str) -> str:
    """Speed of our loop, captured and not, of the plain loop, and of the model alone."""
    rows = [line.rsplit(maxsplit=2) for line in printed.splitlines()]
    speeds = {row[0].strip(): row[1] for row in rows if len(row) == 3}
    names = ("ours", "ours, not captured", "plain DataLoader, float32", "alone")
    if not all(name in speeds for name in names):
        return last_line(printed)
    return "; ".join(f"{name} {speeds[name]}" for name in names) + " images/s"


def machine_facts() -> str:
    """The GPUs and the versions, in a line."""
    gpu = torch.cuda.get_device_properties(0)
    return (
        f"{torch.cuda.device_count()} × {gpu.name}, {gpu.total_memory / 2**30:.0f} GiB, "
        f"torch {torch.__version__}, CUDA {torch.version.cuda}"
    )


def table(parts: list[Part], machine: str) -> str:
    """The table in Markdown."""
    rows = [part.row for part in parts]
    if torch.cuda.device_count() == 1:
        rows.append(f"| {TWO_WORKERS} | not tried | needs two GPUs | |")
    return "\n".join(
        [machine, "", "| part | | figure | time |", "| --- | --- | --- | --- |", *rows]
    )


if __name__ == "__main__":
    sys.exit(main())
