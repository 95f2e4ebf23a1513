"""What tests of trials with several workers share."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

RunWorkers = Callable[[str, Path], dict[str, Any]]


@pytest.fixture(scope="session")
def run_workers() -> RunWorkers:
    """Runs ``python SCRIPT RANK FOLDER`` for two ranks; gives what they saved as ``.pt``."""

    def run(script: str, folder: Path) -> dict[str, Any]:
        environment = {
            **os.environ,
            "PYTHONPATH": str(Path(__file__).parents[2]),
            "GLOO_SOCKET_IFNAME": "lo",
        }
        processes = [
            subprocess.Popen(
                [sys.executable, str(Path(__file__).with_name(script)), str(rank), str(folder)],
                env=environment,
                stderr=subprocess.PIPE,
                text=True,
            )
            for rank in range(2)
        ]
        errors = [process.communicate(timeout=240)[1] for process in processes]
        assert all(process.returncode == 0 for process in processes), "\n".join(errors)
        return {path.stem: torch.load(path) for path in folder.glob("*.pt")}

    return run
