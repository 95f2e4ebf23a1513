"""Typos are reported before Ray starts, and correct names do not import torch."""

import subprocess
import sys
from pathlib import Path

import pytest

from sweeps.sweep_file.loading import ready_made_sweeps

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
CHECK = """
import sys
from sweeps.sweep_file.loading import load_sweep
from sweeps.planning.quick_checks import check_at_once_if_doubtful
check_at_once_if_doubtful(load_sweep(sys.argv[1], sys.argv[2:]))
print("torch" in sys.modules)
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


@pytest.mark.parametrize(
    ("sweep", "overrides"),
    [
        # refcal sets an argument of its loss that no search has, which needs the loss itself.
        *((name, ()) for name in ready_made_sweeps() if name != "refcal"),
        ("quickstart", ("losses=['mine:Loss', {name: mbls, hyperparameters: {lam: 0.1}}]",)),
        ("quickstart", ("model=mine:model", "dataset=mine:data")),
        ("quickstart", ("model=timm/resnet18",)),
    ],
)
def test_right_names_do_not_wait_for_torch(
    tmp_path: Path, sweep: str, overrides: tuple[str, ...]
) -> None:
    (tmp_path / "mine.py").write_text("import torch\n")
    assert python(tmp_path, CHECK, sweep, *overrides) == "False"
