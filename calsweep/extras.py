"""Checks that the packages of an extra are installed."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Final, Literal

_MODULES: Final = {
    "sweeps": (
        *("PIL", "cloudpickle", "filelock", "jinja2", "lightgbm", "loky", "matplotlib", "mlflow"),
        *("optuna", "psutil", "pyarrow", "pydantic", "ray", "requests", "rich"),
        *("rtdl_num_embeddings", "ruamel.yaml", "sklearn", "threadpoolctl", "typer"),
    ),
    "judge": ("jinja2", "pyarrow", "pydantic", "rich", "ruamel.yaml", "threadpoolctl", "typer"),
}
"""The modules of the extras in pyproject.toml."""


def require(what: str, extra: Literal["sweeps", "judge"]) -> None:
    """Raises ``ImportError`` with the install command if modules of an extra are missing."""
    if missing := [name for name in _MODULES[extra] if not _is_installed(name)]:
        raise ImportError(
            f"{what} needs packages that are not installed here ({', '.join(missing)}); install "
            f'them by: pip install "calsweep[{extra}]"'
        )


def _is_installed(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:  # the parent package is missing
        return False
