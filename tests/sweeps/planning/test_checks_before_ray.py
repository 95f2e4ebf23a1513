"""Typos are reported before Ray starts; what needs PyTorch is checked while it starts."""

import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from sweeps.errors import UserError
from sweeps.service.running import run_sweep
from sweeps.sweep_file.loading import load_sweep

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


@pytest.mark.slow
@pytest.mark.usefixtures("without_ray")
def test_a_wrong_value_ends_the_ray_that_was_starting(tmp_path: Path) -> None:
    sweep = load_sweep("quickstart", ["losses=[{name: focal, hyperparameters: {gamma: -1}}]"])
    before = {each.pid for each in psutil.Process().children(recursive=True)}
    with pytest.raises(UserError, match=r"losses: .*gamma.*-1"):
        run_sweep(sweep, str(tmp_path / "store"))
    assert {each.pid for each in psutil.Process().children(recursive=True)} <= before
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "overrides",
    [
        [],
        ["losses=['json:Own', 'focal']", "model=timm/resnet18"],
    ],
)
def test_names_that_look_right_are_checked_while_ray_starts(overrides: list[str]) -> None:
    code = (
        "import sys; from sweeps.planning.names import names_look_right as look;"
        "from sweeps.sweep_file.loading import load_sweep;"
        "print(look(load_sweep('quickstart', sys.argv[1:])), 'torch' in sys.modules)"
    )
    assert python(Path(), code, *overrides) == "True False"
