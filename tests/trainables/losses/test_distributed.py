"""Losses give the same value and gradient for any number of workers, with uneven shares too."""

from pathlib import Path

import pytest
import torch
from torch import Tensor

from tests.harness.workers import run_workers
from trainables.losses import available_losses
from trainables.runtime.distributed import all_gather, global_mean, rank, world_size

LOSSES = (*available_losses(), "torch.nn:MultiMarginLoss")
SHARES = [(number, workers) for workers in (1, 2, 3) for number in range(workers)]

Results = dict[str, dict[str, dict[str, Tensor]]]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """Results of each worker, from one run of three processes for all tests."""
    script = Path(__file__).with_name("worker.py")
    return run_workers(script, tmp_path_factory.mktemp("workers"), count=3)


@pytest.mark.parametrize("name", LOSSES)
def test_several_workers_equal_one(name: str, results: Results) -> None:
    expected = results["alone"][name]
    for number, workers in SHARES:
        found = results[f"worker{number}of{workers}"][name]
        assert found.keys() == expected.keys()
        for key in expected:
            same = torch.allclose(found[key], expected[key], rtol=1e-9, atol=1e-12)
            assert same, f"{key} of worker {number} of {workers}"


@pytest.mark.parametrize(("number", "workers"), SHARES)
def test_all_gather(number: int, workers: int, results: Results) -> None:
    found = results[f"worker{number}of{workers}"]["all_gather"]
    owners = [float(owner) for owner in range(workers) for _ in range(owner)]
    assert found["rows"].tolist() == [[owner, owner] for owner in owners]
    mine = [[float(i), float(i)] for i, owner in enumerate(owners) if owner == number]
    assert found["gradient"].tolist() == mine


def test_one_worker_does_not_communicate() -> None:
    tensor, mean = torch.zeros(2, 3), torch.zeros(())
    assert (rank(), world_size()) == (0, 1)
    assert all_gather(tensor) is tensor
    assert global_mean(mean, 2) is mean
