"""Runs the programs on pages of the documentation."""

import runpy
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

import calsweep

# A Ray session with room for one trial, so that each sweep starts one process.
START_RAY = """
import ray
from sweeps.cluster.ray_internals import agents_may_be_slow

with agents_may_be_slow():
    ray.init("local", num_cpus=1, include_dashboard=False, log_to_driver=False)
"""


# By default a sweep trains reference models, and finalists with fresh seeds until the verdict is
# decided. This and further epochs take most of its time.
FEWER: Mapping[str, Any] = {
    "training.epochs": 2,
    "selection.finalists": 1,
    "selection.seeds": 1,
    "reference": "none",
}


def run_programs(programs: Sequence[str], folder: Path) -> None:
    """Runs programs one after the other in a folder, with one MLflow and without Ray.

    Sweeps are small (FEWER), whatever the number of epochs in their programs.
    """
    run = calsweep.run

    def here(*arguments: Any, set: Mapping[str, Any] | None = None, **options: Any) -> Any:
        return run(*arguments, set={**FEWER, **(set or {})}, debug=True, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for name in ("calsweep.run", "calsweep.estimator.run"):
            patch.setattr(name, here)
        for number, program in enumerate(programs):
            path = folder / f"page_{number}.py"
            path.write_text(program, encoding="utf-8")
            runpy.run_path(str(path), run_name="__main__")
