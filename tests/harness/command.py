"""The command ``calsweep``, as users call it."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

CALSWEEP = str(Path(sys.executable).with_name("calsweep"))


def calsweep(
    folder: Path, *arguments: str, environment: Mapping[str, str] | None = None, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run it to its end, in a terminal of 120 columns.

    Args:
        folder: The working folder.
        arguments: Of the command.
        environment: None for this process's.
        variables: Further ones.
    """
    base = os.environ if environment is None else environment
    return subprocess.run(
        [CALSWEEP, *arguments],
        cwd=folder,
        env={**base, "COLUMNS": "120", **variables},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


def start_calsweep(folder: Path, *arguments: str, **streams: Any) -> subprocess.Popen[Any]:
    """Start it, as from a terminal.

    Args:
        folder: The working folder.
        arguments: Of the command.
        streams: For :class:`subprocess.Popen`.
    """
    return subprocess.Popen([CALSWEEP, *arguments], cwd=folder, preexec_fn=_hears_ctrl_c, **streams)


def _hears_ctrl_c() -> None:
    """A job that runs in the background ignores Ctrl-C, and so would its children."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
