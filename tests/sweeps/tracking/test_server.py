"""`calsweep ui` ends all its processes when it is terminated, also without Ctrl-C."""

import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.slow
def test_no_server_outlives_the_command(tmp_path: Path) -> None:
    (tmp_path / "mlflow.db").touch()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    command = [sys.executable, "-m", "sweeps.cli", "ui", "--storage", str(tmp_path)]
    with subprocess.Popen(
        [*command, "--port", str(port)], cwd=tmp_path, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            assert any("MLflow is up" in line for line in process.stdout)
            assert listens(port)
            process.send_signal(signal.SIGTERM)
            assert process.wait(timeout=60) == 0
            assert not listens(port)
        finally:
            process.kill()
