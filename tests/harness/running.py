"""Runs the programs on a page of the documentation."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path


def run_blocks(blocks: Sequence[str], folder: Path) -> str:
    """Runs code blocks as one script in a folder; returns what it printed."""
    (folder / "page.py").write_text("\n".join(blocks), encoding="utf-8")
    command = [sys.executable, "-W", "ignore", "page.py"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout
