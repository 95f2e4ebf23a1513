"""One message if another package has the name of one of calsweep's."""

import subprocess
import sys
from pathlib import Path

import pytest

from calsweep.packages import PACKAGES, hidden_package

OWN_SWEEPS = "class Config: ...\n"


def python(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("name", PACKAGES)
def test_a_folder_beside_a_script_hides_calsweeps(tmp_path: Path, name: str) -> None:
    hiding = tmp_path / name / "__init__.py"
    hiding.parent.mkdir()
    hiding.write_text(OWN_SWEEPS)
    says = f"{hiding} hides calsweep's package '{name}'; rename that folder, or install calsweep in"

    command = python(tmp_path, "-m", "calsweep", "--version")
    assert command.returncode == 2
    [line] = command.stderr.splitlines()
    assert line.startswith(f"calsweep: {says}")

    imported = python(tmp_path, "-c", "import calsweep")
    assert imported.stderr.splitlines()[-1].startswith(f"ImportError: {says}")


def test_a_folder_without_modules_hides_nothing(tmp_path: Path) -> None:
    (tmp_path / "sweeps").mkdir()
    assert python(tmp_path, "-c", "import calsweep").stderr == ""


def test_a_package_that_was_installed_into_calsweeps(
    tmp_path: Path,
) -> None:
    assert hidden_package() is None
    (tmp_path / "sweeps-0.3.0.dist-info").mkdir()
    for name in PACKAGES:
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(f'"""The part of calsweep: {name}."""')
    command = python(tmp_path, "-c", "import calsweep")
    assert "sweeps-0.3.0.dist-info installs files into calsweep's package" in command.stderr
