"""The clock of all Python processes of a cluster, which a fault can step.

``time.time`` of every process with :func:`clock_environment` returns the system's time plus the
seconds in a file. The monotonic clock stays as it is, as after a step of the system's clock. (The
library libfaketime 0.9.10 cannot be used: where it leaves the monotonic clock alone, ``time.sleep``
of Python fails.)
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Final

_VARIABLE: Final = "CALSWEEP_STEPPED_CLOCK"
_AT_START: Final = f'''
import os
import time

system = time.time


def stepped():
    """The system's time plus the seconds in the file."""
    try:
        with open(os.environ["{_VARIABLE}"]) as stream:
            return system() + float(stream.read())
    except (OSError, KeyError):
        return system()


time.time = stepped
'''


def clock_environment() -> dict[str, str]:
    """Variables of processes whose clock is stepped; the clock is right at first."""
    folder = Path(tempfile.mkdtemp(prefix="calsweep-clock-"))
    (folder / "sitecustomize.py").write_text(_AT_START)  # Python imports it first
    path = os.pathsep.join(filter(None, (str(folder), os.environ.get("PYTHONPATH"))))
    environment = {"PYTHONPATH": path, _VARIABLE: str(folder / "seconds")}
    step_clock(environment, 0.0)
    return environment


def step_clock(environment: dict[str, str], seconds: float) -> None:
    """Let the clock of these processes differ from the system's by this."""
    file = Path(environment[_VARIABLE])
    partial = file.with_suffix(".partial")
    partial.write_text(str(seconds))
    partial.replace(file)
