"""The ``calsweep`` command, also as ``python -m calsweep``."""

from __future__ import annotations

import sys

from calsweep.extras import require
from calsweep.packages import hidden_package

_OF_JUDGE = ("judge", "scale", "--help", "--version")  # these need neither Ray nor MLflow


def main() -> None:
    """Runs the command; exits with code 2 if packages are missing or hidden."""
    if problem := hidden_package():
        print(f"calsweep: {problem}", file=sys.stderr)
        sys.exit(2)
    try:
        if sys.argv[1:2] and sys.argv[1] in _OF_JUDGE:
            require(f"calsweep {sys.argv[1]}", "judge")
        else:
            require("the command", "sweeps")
    except ImportError as error:
        print(f"calsweep: {error}", file=sys.stderr)
        sys.exit(2)
    from sweeps.cli import run

    run()


if __name__ == "__main__":
    main()
