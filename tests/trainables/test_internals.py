"""What :mod:`trainables.internals` leans on in PyTorch."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

from tests.harness.workers import run_workers
from trainables.internals import lost_a_peer, uncompiled

KINDS = ["SGD", "Adam", "AdamW"]


@pytest.mark.parametrize("kind", KINDS)
def test_an_optimiser_without_the_compilers_wrappers_is_the_same(kind: str) -> None:
    def trained(make: Callable[..., torch.optim.Optimizer]) -> torch.Tensor:
        weight = nn.Parameter(torch.tensor([1.0, -2.0, 3.0]))
        optimiser = make([weight], lr=0.1, weight_decay=0.01)
        for _ in range(5):
            optimiser.zero_grad()
            weight.pow(4).sum().backward()
            optimiser.step()
        return weight.detach()

    plain = getattr(torch.optim, kind)
    assert torch.equal(trained(uncompiled(plain)), trained(plain))


def test_the_death_of_a_worker_is_told_from_a_fault(tmp_path: Path) -> None:
    script = Path(__file__).with_name("dying_worker.py")
    (survivor,) = run_workers(script, tmp_path).values()
    assert survivor["lost a peer"]
    assert not lost_a_peer(RuntimeError("mat1 and mat2 shapes cannot be multiplied"))
