"""What a sweep ran on, so that it can be repeated."""

from __future__ import annotations

import os
import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from sweeps.redaction import redact

_PACKAGES = (
    "calsweep",
    "mlflow",
    "numpy",
    "optuna",
    "pillow",
    "pyarrow",
    "ray",
    "scikit-learn",
    "timm",
    "torch",
    "torchvision",
)


def describe_environment() -> dict[str, Any]:
    """Versions of Python and the packages that matter, the platform, and the command."""
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cpus": os.cpu_count(),
        "packages": {name: _version(name) for name in _PACKAGES},
        "command": [redact(word) for word in sys.argv],
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
