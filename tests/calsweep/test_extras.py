"""Messages if only losses and metrics are installed."""

import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import numpy as np
import pytest

from calsweep import extras

ROOT = Path(__file__).parents[2]
WITHOUT = """
import sys
for name in {missing}:
    sys.modules[name] = None  # as if it were not there
import importlib.util
found = importlib.util.find_spec
def find_spec(name, package=None):
    return None if name in {missing} else found(name, package)
importlib.util.find_spec = find_spec
"""


def run_without(missing: tuple[str, ...], code: str) -> subprocess.CompletedProcess[str]:
    program = WITHOUT.format(missing=missing) + code
    command = [sys.executable, "-c", program]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(("extra", "modules"), [*extras._MODULES.items()])
def test_the_modules_are_those_of_the_extra(extra: str, modules: tuple[str, ...]) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = {normal(each) for each in project["optional-dependencies"][extra]}
    owners = packages_distributions()
    named = [
        wanted & {normal(owner) for owner in owners.get(module, [module])}
        for module in modules  # ruamel.yaml is in a namespace package
    ]
    assert sorted(map(sorted, named)) == sorted([name] for name in wanted)
    assert list(modules) == sorted(modules)


def normal(requirement: str) -> str:
    """The normalised name of a distribution in a requirement."""
    return re.split(r"[\[<>=]", requirement)[0].lower()


def test_losses_and_metrics_need_none_of_them() -> None:
    code = """
import calsweep, torch
logits, targets = 3 * torch.eye(4), torch.arange(4)
for name in calsweep.losses.available_losses():
    calsweep.losses.make_loss(name, 4)
calsweep.losses.make_loss("r_aurc", 4)(logits, targets)
calsweep.metrics.evaluate(logits, targets)
"""
    done = run_without(extras._MODULES["sweeps"], code)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", ["run", "load", "CalibratedClassifierSweep"])
def test_all_else_says_what_to_install(name: str) -> None:
    done = run_without(("ray", "mlflow"), f"import calsweep; calsweep.{name}")
    assert done.stderr.splitlines()[-1] == (
        f"ImportError: calsweep.{name} needs packages that are not installed here (mlflow, ray); "
        'install them by: pip install "calsweep[sweeps]"'
    )


def test_the_command_says_it_too() -> None:
    done = run_without(
        ("ray", "typer"), "sys.argv[1:] = ['losses']; from calsweep.__main__ import main; main()"
    )
    assert done.returncode == 2
    assert done.stderr == (
        "calsweep: the command needs packages that are not installed here (ray, typer); install "
        'them by: pip install "calsweep[sweeps]"\n'
    )


def test_judge_needs_neither_ray_nor_mlflow(tmp_path: Path) -> None:
    missing = tuple({*extras._MODULES["sweeps"]} - {*extras._MODULES["judge"]})
    file, scaling = tmp_path / "a.npz", tmp_path / "a.json"
    score = np.random.default_rng(0).random(400)
    np.savez(file, probs=score, labels=(score > np.random.default_rng(1).random(400)).astype(int))
    for arguments in (
        ["judge", str(file), "--save-scaling", str(scaling)],
        ["judge", str(file), "--format", "html", "--output", str(tmp_path / "a.html")],
        ["scale", str(file), "--with", str(scaling), "--output", str(tmp_path / "b.csv")],
    ):
        code = f"sys.argv[1:] = {arguments!r}; from calsweep.__main__ import main; main()"
        done = run_without(missing, code)
        assert done.returncode == 0, done.stderr
    assert (tmp_path / "b.csv").exists()


def test_the_command_is_also_a_module() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "calsweep", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("calsweep ")


@pytest.mark.parametrize("package", ["calsweep", "search_spaces", "sweeps", "trainables"])
def test_the_packages_are_typed(package: str) -> None:
    assert (ROOT / package / "py.typed").is_file()
