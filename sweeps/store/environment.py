"""The environment of a sweep, for reproducing it."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from sweeps.messages.redaction import redact

_SECONDS = 10.0  # timeout of git
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


def describe_environment() -> dict[str, object]:
    """Versions of Python and of the relevant packages, the platform, the command, the commit."""
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cpus": os.cpu_count(),
        "packages": _packages(),
        "command": [redact(word) for word in sys.argv],
        "commit": _commit(),
    }


def versions() -> dict[str, str | None]:
    """The versions of Python and of the relevant packages."""
    return {"python": platform.python_version(), **_packages()}


def versions_in(environment: Mapping[str, Any]) -> dict[str, str | None]:
    """Those in a stored description of an environment."""
    return {"python": environment["python"], **environment.get("packages", {})}


def _packages() -> dict[str, str | None]:
    return {name: _version(name) for name in _PACKAGES}


def _commit() -> str | None:
    command = ["git", "describe", "--always", "--abbrev=40", "--dirty", "--exclude=*"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() or None


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
