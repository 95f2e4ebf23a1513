"""Builds the documentation, warnings as errors: python -m website [mkdocs' own options]."""

import sys
from pathlib import Path

from mkdocs.__main__ import cli

if __name__ == "__main__":
    arguments = sys.argv[1:] or ["build", "--quiet", "--strict"]
    config = Path(__file__).parents[1] / "mkdocs.yml"
    cli([*arguments, "--config-file", str(config)])
