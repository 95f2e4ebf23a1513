"""Runs the programs on pages of the documentation."""

import runpy
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest

import calsweep

# A Ray session with room for one trial, so that each sweep starts one process.
START_RAY = """
import ray
from sweeps.cluster.ray_internals import agents_may_be_slow, for_trials_only

with for_trials_only(), agents_may_be_slow():
    ray.init("local", num_cpus=1, include_dashboard=False, log_to_driver=False)
"""


def run_programs(programs: Sequence[str], folder: Path) -> None:
    """Runs programs one after the other in a folder, with one MLflow and without Ray."""
    here = partial(calsweep.run, debug=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for name in ("calsweep.run", "calsweep.estimator.run"):
            patch.setattr(name, here)
        for number, program in enumerate(programs):
            path = folder / f"page_{number}.py"
            path.write_text(program, encoding="utf-8")
            runpy.run_path(str(path), run_name="__main__")
