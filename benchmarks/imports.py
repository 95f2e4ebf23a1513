"""Import times: python -m benchmarks.imports."""

import subprocess
import sys
import time

STATEMENTS = (
    "import torch",
    "import trainables.losses",
    "import trainables.metrics",
    "import search_spaces",
    "import sweeps.cli",
    "import calsweep",
)
HEAVY = ("torch", "ray", "mlflow", "torchvision", "matplotlib", "sklearn")
RUNS = 3


def main() -> None:
    """Print the duration and the heavy packages loaded, for each import and for --help."""
    print(f"{'':32s}{'seconds':>9s}  pulls in")
    for statement in STATEMENTS:
        code = f"{statement}; import sys; print(*(m for m in {HEAVY} if m in sys.modules))"
        seconds, output = fastest([sys.executable, "-c", code])
        print(f"{statement:32s}{seconds:9.2f}  {output or '–'}")
    seconds, _ = fastest([sys.executable, "-m", "sweeps.cli", "--help"])
    print(f"{'calsweep --help':32s}{seconds:9.2f}")


def fastest(command: list[str]) -> tuple[float, str]:
    """The duration of the fastest of some runs, and its output."""
    times = []
    for _ in range(RUNS):
        start = time.perf_counter()
        output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        times.append(time.perf_counter() - start)
    return min(times), output.strip()


if __name__ == "__main__":
    main()
