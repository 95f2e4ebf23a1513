"""The loss that docs/python.md gives for Hugging Face's Trainer."""

from pathlib import Path

import pytest
import torch

from tests.calsweep import trainer_worker
from tests.calsweep.trainer_worker import expected, step
from tests.harness.workers import run_workers


@pytest.mark.parametrize("accumulated", [1, 4])
def test_a_step_does_not_depend_on_accumulation(accumulated: int, tmp_path: Path) -> None:
    found = step("DualFocal", 32 // accumulated, accumulated, tmp_path)
    torch.testing.assert_close(found, expected("DualFocal"))


@pytest.mark.slow
def test_a_step_does_not_depend_on_the_number_of_processes(tmp_path: Path) -> None:
    results = run_workers(Path(trainer_worker.__file__), tmp_path)
    assert len(results) == 2
    for found in results.values():
        for run, weights in found.items():
            torch.testing.assert_close(weights, expected(run.partition(" ")[0]))
