"""Checks that the packages of the extra ``sweeps`` are installed."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import Final

# The modules of pyproject.toml's extra ``sweeps``.
_OF_SWEEPS: Final = (
    "PIL",
    "cloudpickle",
    "filelock",
    "jinja2",
    "lightgbm",
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
    "typer",
)


# The modules of the extra ``judge``.
_OF_JUDGE: Final = (
    "jinja2",
    "pyarrow",
    "pydantic",
    "rich",
    "ruamel.yaml",
    "threadpoolctl",
    "typer",
)


def require_sweeps(what: str) -> None:
    """Raises ``ImportError`` with the install command if modules of sweeps are missing."""
    _require(what, "sweeps", _OF_SWEEPS)


def require_judge(what: str) -> None:
    """Raises ``ImportError`` with the install command if modules of judgements are missing."""
    _require(what, "judge", _OF_JUDGE)


def _require(what: str, extra: str, modules: Sequence[str]) -> None:
    if missing := [name for name in modules if not _is_installed(name)]:
        raise ImportError(
            f"{what} needs packages that are not installed here ({', '.join(missing)}); install "
            f'them by: pip install "calsweep[{extra}]"'
        )


def _is_installed(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:  # the parent package is missing
        return False
