"""Runs the programs on pages of the documentation."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

# A Ray session with room for one trial, so that each sweep starts one process.
START_RAY = """
import ray
from sweeps.cluster.ray_internals import agents_may_be_slow

with agents_may_be_slow():
    ray.init("local", num_cpus=1, include_dashboard=False, log_to_driver=False)
"""
_EACH = """
import runpy, sys

for program in sys.argv[1:]:
    runpy.run_path(program, run_name="__main__")
"""


def run_programs(programs: Sequence[str], folder: Path) -> None:
    """Runs programs one after the other in a folder, in one Ray session and with one MLflow."""
    paths = [folder / f"page_{number}.py" for number in range(len(programs))]
    for path, program in zip(paths, programs, strict=True):
        path.write_text(program, encoding="utf-8")
    command = [sys.executable, "-W", "ignore", "-c", START_RAY + _EACH, *map(str, paths)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
