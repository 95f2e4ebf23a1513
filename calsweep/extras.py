"""What sweeps need beyond losses and metrics: reported in one message if it is missing."""

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
    "pynvml",
    "ray",
    "requests",
    "rich",
    "rtdl_num_embeddings",
    "ruamel.yaml",
    "sklearn",
    "timm",
    "torchvision",
    "typer",
)


def require_sweeps(what: str) -> None:
    """Refuses what needs the extra ``sweeps`` where that is not installed.

    Args:
        what: Is asked for, as the message names it.

    Raises:
        ImportError: Modules are missing; says which, and what installs them.
    """
    if missing := [name for name in _OF_SWEEPS if not _is_there(name)]:
        raise ImportError(
            f"{what} needs packages that are not installed here ({', '.join(missing)}); install "
            'them by: pip install "calsweep[sweeps]"'
        )


def _is_there(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:  # of the package around it
        return False
