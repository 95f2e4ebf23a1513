"""Runs the programs on pages of the documentation."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

_EACH = """
import runpy, sys
from sweeps.cluster.connection import connected

with connected(None):
    for program in sys.argv[1:]:
        runpy.run_path(program, run_name="__main__")
"""  # in one Ray session, and with one MLflow database


def run_programs(programs: Sequence[str], folder: Path) -> None:
    """Runs programs one after the other in a folder."""
    paths = [folder / f"page_{number}.py" for number in range(len(programs))]
    for path, program in zip(paths, programs, strict=True):
        path.write_text(program, encoding="utf-8")
    command = [sys.executable, "-W", "ignore", "-c", _EACH, *map(str, paths)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
