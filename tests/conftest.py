"""What all tests share."""

from pathlib import Path

import pytest
import torch
from hypothesis import settings

# Several threads on a small machine only get into each other's way.
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
