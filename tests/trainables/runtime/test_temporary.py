"""Temporary folders of processes that were killed are deleted."""

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from trainables.runtime.temporary import temporary_folder

HOLDS = """
import os, sys
from trainables.runtime.temporary import temporary_folder
folder = temporary_folder("calsweep-test-")
wait = "import time; print(flush=True); time.sleep(100)"
os.execv(sys.executable, [sys.executable, "-c", wait])
"""


def test_a_folder_lasts_as_long_as_its_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-c", HOLDS]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        (held,) = tmp_path.iterdir()
        os.utime(held, (0, 0))
        first = temporary_folder("calsweep-test-")
        assert set(tmp_path.iterdir()) == {held, first}
        os.kill(holder.pid, signal.SIGKILL)
    second = temporary_folder("calsweep-test-")
    assert set(tmp_path.iterdir()) == {first, second}
