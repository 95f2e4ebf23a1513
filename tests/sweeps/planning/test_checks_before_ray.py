"""Typos are reported before Ray starts."""

import subprocess
import sys
from pathlib import Path

RUN = """
import sys
from sweeps.errors import UserError
from sweeps.sweep_file.loading import load_sweep
from sweeps.service.running import run_sweep
for override in sys.argv[1:]:
    try:
        run_sweep(load_sweep("quickstart", [override]), "store")
    except UserError as error:
        print(error, "ray" in sys.modules)
"""


def python(folder: Path, code: str, *arguments: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=folder,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()


def test_a_wrong_name_is_reported_before_ray_is_imported(tmp_path: Path) -> None:
    wrong = {
        "losses=[focl]": "did you mean 'focal'",
        "losses=[{name: focal, hyperparameters: {gama: 1}}]": "did you mean 'gamma'",
        "losses=['nowhere:Loss']": "No module named 'nowhere'",
        "model=smal_cnn": "did you mean 'small_cnn'",
        "dataset={name: digits, validaton: 0.1}": "did you mean 'validation'",
    }
    lines = python(tmp_path, RUN, *wrong).splitlines()
    for line, message in zip(lines, wrong.values(), strict=True):
        assert message in line
        assert line.endswith("False")
    assert list(tmp_path.iterdir()) == []
