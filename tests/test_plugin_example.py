"""The package in examples/plugin is built and installed, and each of its components is used."""

import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from tests.harness.command import calsweep

EXAMPLE = Path(__file__).parents[1] / "examples/plugin"
BUILD = "import sys; from hatchling.build import build_wheel; print(build_wheel(sys.argv[1]))"
LOOP = """
name: loop
dataset: two_moons
trainable: linear_loop
losses: [sharp_cross_entropy]
training: {epochs: 2}
search: {trials: 2}
selection: {finalists: 0}
reference: none
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    build = [sys.executable, "-c", BUILD, str(folder)]
    built = subprocess.run(build, cwd=EXAMPLE, check=True, capture_output=True, text=True)
    with zipfile.ZipFile(folder / built.stdout.split()[-1]) as wheel:
        wheel.extractall(folder)
    return folder


@pytest.mark.slow
def test_an_installed_package_adds_each_kind_of_component(tmp_path: Path, site: Path) -> None:
    def said(*arguments: str) -> str:
        done = calsweep(tmp_path, *arguments, COLUMNS="200", PYTHONPATH=str(site))
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert "A recipe of the package calsweep-example." in said("recipes")
    objective = ("--set", "search.objective=worst_class_error")
    found = said("run", "recipes/moons", "--debug", *objective)  # data, model, loss, space, shift
    assert "sharp_cross_entropy sharpness=" in found and "nearest centroid" in found
    assert "worst class error" in found
    assert "noisy_moons" in said("show", "moons", "--all")
    assert "ECE with bias" in said("table", "moons", "--metrics", "ece,ece@bias")
    (tmp_path / "loop.yaml").write_text(LOOP)
    assert "sharp_cross_entropy" in said("run", "loop.yaml", "--debug")


def test_the_page_has_each_group() -> None:
    groups = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]["entry-points"]
    page = (EXAMPLE.parents[1] / "docs/plugins.md").read_text(encoding="utf-8")
    assert len(groups) == 10 and all(f"`{group}`" in page for group in groups)
