"""All tests and benchmarks that need a GPU, in one command.

    python -m benchmarks.gpu [--output FILE]

It takes less than a quarter of an hour and needs no network. It runs the tests marked ``gpu``,
measures the speed of the losses, of the training loop and of many trials as one batched model, and
runs real sweeps whose trials share a GPU: with built-in and adaptive losses, a custom loop, trials
that exceed their share of the memory, and trials that trigger a device-side assertion. With two
GPUs, another sweep has two workers per trial (NCCL). It prints a Markdown table, followed by the
output of each part, and writes the same as JSON next to FILE, or to gpu.json. The exit code is 2
without a GPU, and 1 if a part failed.
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


def main() -> int:
    """Run all parts and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--output", type=Path, help="write the table there, and JSON beside it")
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        print(
            f"no GPU: PyTorch {torch.__version__} can use none on this machine; run this on one "
            "that has a GPU and a PyTorch built for it",
            file=sys.stderr,
        )
        return 2
    count = torch.cuda.device_count()
    parts = [
        run("tests marked gpu", 180, last_line, "pytest", "-q", "-m", "gpu", "tests"),
        run("losses", 90, worst_loss, "benchmarks.losses", "--device", "cuda", "--rounds", "30"),
        run("training", 120, training_speed, "benchmarks.training", "--device", "cuda", "--shape",
            "3", "32", "32", "--batch-size", "512"),
        run("trials as one batched model", 60, last_line, "benchmarks.batched_trials", "--device",
            "cuda", "--trials", "4", "16", "64"),
        *(run(name, 120, last_line, "benchmarks.gpu_sweep", sweep) for name, sweep in SWEEPS),
    ]  # fmt: skip
    if count > 1:
        parts.append(run(TWO_WORKERS, 150, last_line, "benchmarks.gpu_sweep", "workers"))
    machine = machine_facts(count)
    text = table(parts, machine, count)
    print(text)
    for part in parts:
        print(f"\n=== {part.name}\n{part.printed}")
    if arguments.output:
        arguments.output.write_text(text + "\n")
    write_json(parts, machine, (arguments.output or Path("gpu.md")).with_suffix(".json"))
    return 0 if all(part.passed for part in parts) else 1


def run(name: str, limit: float, figure: Callable[[str], str], *module: str) -> Part:
    """Run ``python -m MODULE``, for ``limit`` seconds at most."""
    print(f"{name} ...", file=sys.stderr, flush=True)
    start = time.monotonic()
    with tempfile.TemporaryFile("w+") as stream:
        try:
            code = subprocess.run(
                [sys.executable, "-m", *module],
                check=False,
                cwd=ROOT,
                stdout=stream,
                stderr=subprocess.STDOUT,
                timeout=limit,
            ).returncode
        except subprocess.TimeoutExpired:
            code = None
        seconds = time.monotonic() - start
        stream.seek(0)
        printed = stream.read()
    if code is None:
        return Part(name, False, f"not done after {limit:.0f} s", seconds, printed)
    return Part(name, code == 0, figure(printed), seconds, printed)


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
    """Speed of our loop, of the plain loop, and of the model alone."""
    rows = [line.rsplit(maxsplit=2) for line in printed.splitlines()]
    speeds = {row[0].strip(): row[1] for row in rows if len(row) == 3}
    names = ("ours", "plain DataLoader, float32", "alone")
    if not all(name in speeds for name in names):
        return last_line(printed)
    return ", ".join(f"{name} {speeds[name]}" for name in names) + " images/s"


def machine_facts(count: int) -> str:
    """The GPUs and the versions, in a line."""
    gpu = torch.cuda.get_device_properties(0)
    return (
        f"{count} × {gpu.name}, {gpu.total_memory / 2**30:.0f} GiB, torch {torch.__version__}, "
        f"CUDA {torch.version.cuda}"
    )


def write_json(parts: list[Part], machine: str, path: Path) -> None:
    """Write the machine and the fields of each part as JSON."""
    found = {"machine": machine, "parts": [asdict(part) for part in parts]}
    path.write_text(json.dumps(found, indent=2) + "\n")


def table(parts: list[Part], machine: str, count: int) -> str:
    """The table in Markdown."""
    rows = [
        f"| {part.name} | {'passed' if part.passed else 'FAILED'} | {part.figure} | "
        f"{part.seconds:.0f} s |"
        for part in parts
    ]
    if count == 1:
        rows.append(f"| {TWO_WORKERS} | not tried | needs two GPUs | |")
    return "\n".join(
        [machine, "", "| part | | figure | time |", "| --- | --- | --- | --- |", *rows]
    )


if __name__ == "__main__":
    sys.exit(main())
