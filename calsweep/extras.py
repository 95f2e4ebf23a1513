"""Checks that the packages of the extra ``sweeps`` are installed."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Final

# The modules of pyproject.toml's extra ``sweeps``.
_OF_SWEEPS: Final = (
    "PIL",
    "cloudpickle",
    "filelock",
    "jinja2",
    "loky",
    "matplotlib",
    "mlflow",
    "optuna",
    "psutil",
    "pyarrow",
    "pydantic",
    "ray",
    "requests",
    "rich",
    "rtdl_num_embeddings",
    "ruamel.yaml",
    "sklearn",
    "threadpoolctl",
    "timm",
    "torchvision",
    "typer",
)


def require_sweeps(what: str) -> None:
    """Raises ``ImportError`` with the install command if modules are missing."""
    if missing := [name for name in _OF_SWEEPS if not _is_installed(name)]:
        raise ImportError(
            f"{what} needs packages that are not installed here ({', '.join(missing)}); install "
            'them by: pip install "calsweep[sweeps]"'
        )


def _is_installed(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:  # the parent package is missing
        return False
