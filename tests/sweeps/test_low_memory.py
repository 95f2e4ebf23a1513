"""A node runs low on memory, and Ray's memory monitor kills trials."""

import os
import threading
import time
from pathlib import Path

import psutil
import pytest
from rich.console import Console

from sweeps.service.running import run_sweep
from sweeps.sweep_file.loading import parse_sweep

SLOW_LOSS = """
import time
from torch.nn.functional import cross_entropy
from trainables.losses import CalibrationLoss

class Slow(CalibrationLoss):
    def compute(self, logits, targets, indices, features):
        time.sleep(0.5)
        return cross_entropy(logits, targets)
"""
GIB = 2**30


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.timeout(600)
def test_a_trial_killed_by_the_memory_monitor_is_retried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = psutil.virtual_memory()
    margin = min(5 * GIB, memory.available // 2)  # other processes take less meanwhile
    threshold = 1 - (memory.available - margin) / memory.total
    monkeypatch.setenv("RAY_memory_usage_threshold", f"{threshold:.4f}")
    monkeypatch.setenv("RAY_memory_monitor_refresh_ms", "100")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "slow_loss.py").write_text(SLOW_LOSS)
    values = {
        "name": "hungry",
        "dataset": {"name": "digits", "train_samples": 300},
        "model": {"name": "small_cnn", "width": 8},
        "losses": ["slow_loss:Slow"],
        "training": {"epochs": 4, "batch_size": 64},
        "scheduler": {"name": "none"},
        "selection": {"finalists": 0},
    }
    said = tmp_path / "said"
    with open(said, "w") as stream:
        console = Console(file=stream, width=200)
        hog = threading.Thread(target=eat_until_somebody_is_killed, args=(said,))
        hog.start()
        result = run_sweep(parse_sweep(values), str(tmp_path / "store"), console=console)
        hog.join()
    assert "was killed, as its node runs low on memory" in said.read_text()
    assert {record.state for record in result.records} == {"finished"}
    for record in result.records:
        assert [entry["epoch"] for entry in record.history] == [1, 2, 3, 4]


def eat_until_somebody_is_killed(said: Path) -> None:
    """Take memory when trials run, and release it when one was killed."""
    while "trials ·" not in said.read_text():
        time.sleep(0.1)
    time.sleep(2)
    eaten = []
    until = time.monotonic() + 40
    while "low on memory" not in said.read_text() and time.monotonic() < until:
        if len(eaten) < 9 * 8:
            eaten.append(bytearray(os.urandom(1)) * (GIB // 8))
        time.sleep(0.05)
