"""The names and the import time of ``import calsweep``."""

import inspect
import subprocess
import sys
from importlib.resources import files

import pytest

import calsweep

HEAVY = ("torch", "ray", "mlflow", "optuna", "pandas", "numpy", "sklearn", "matplotlib", "pyarrow")


def test_importing_it_imports_nothing_heavy() -> None:
    code = f"import calsweep, sys; print([m for m in {HEAVY} if m in sys.modules], dir(calsweep))"
    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert run.stdout.startswith("[] ")
    assert "'run'" in run.stdout


@pytest.mark.parametrize("name", calsweep.__all__)
def test_all_that_it_names_exists_and_is_described(name: str) -> None:
    assert len(inspect.getdoc(getattr(calsweep, name)) or "") > 20


def test_what_it_does_not_name_is_not_there() -> None:
    with pytest.raises(AttributeError, match="'calsweep' has no attribute 'swep'"):
        calsweep.swep  # noqa: B018


def test_it_is_typed() -> None:
    assert files("calsweep").joinpath("py.typed").is_file()
