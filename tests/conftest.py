"""Settings and fixtures of all tests."""

import os
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import settings

from sweeps.cluster.ray_internals import LOCAL_SETTINGS

# Tests start hundreds of processes: where Python may not keep its byte code, as in many containers,
# each would compile PyTorch, Ray and MLflow anew, which takes longer than all else it does.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# Ray reads some of them when it is imported, as tests do before any sweep has set them: under
# `uv run pytest` its workers would get a second environment.
for name, value in LOCAL_SETTINGS.items():
    os.environ.setdefault(name, value)

# Several threads slow each other down on a small machine.
torch.set_num_threads(1)
settings.register_profile("calsweep", deadline=None, max_examples=60, derandomize=True)
settings.load_profile("calsweep")

CHROMIUM = Path("/usr/bin/chromium")


@pytest.fixture(scope="session")
def chromium() -> str:
    """Path of a real browser."""
    if not CHROMIUM.exists():
        pytest.skip("there is no browser: apt-get install chromium")
    return str(CHROMIUM)
