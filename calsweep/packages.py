"""Whether another package hides calsweep's own."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Final

PACKAGES: Final = ("search_spaces", "sweeps", "trainables")
_MARKER: Final = " of calsweep: "  # in the docstring of each package
_SEPARATE: Final = "install calsweep in an environment of its own"
_REMEDY: Final = f"rename that folder, or {_SEPARATE}"


def hidden_package() -> str | None:
    """Which file hides one of calsweep's packages, and what to do; None if all is well."""
    for name in PACKAGES:
        spec = find_spec(name)
        if spec is None or spec.origin is None:  # a folder without modules hides nothing installed
            return f"calsweep's package {name!r} is missing; install calsweep again"
        file = Path(spec.origin)
        if _MARKER not in file.read_text(encoding="utf-8", errors="replace"):
            return f"{file} hides calsweep's package {name!r}; {_REMEDY}"
        # The files of a package of the same name lie between calsweep's if it was installed first.
        for other in file.parents[1].glob(f"{name}-*.dist-info"):
            return f"{other} installs files into calsweep's package {name!r}; {_SEPARATE}"
    return None


def is_command() -> bool:
    """Whether the process runs the command, which prints messages instead of tracebacks."""
    return Path(sys.argv[0]).name in ("-m", "calsweep")  # "-m" while Python looks for the module
