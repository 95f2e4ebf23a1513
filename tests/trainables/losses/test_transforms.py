"""Losses under torch.compile and torch.vmap."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import calsweep
from trainables.losses import CalibrationLoss, available_losses

BuildLoss = Callable[..., CalibrationLoss]


@pytest.fixture(autouse=True)
def _fresh_compiler() -> None:
    torch.compiler.reset()


def compiled(loss: torch.nn.Module) -> Callable[..., Tensor]:
    return torch.compile(loss, fullgraph=True, backend="eager")


@pytest.mark.parametrize("name", available_losses())
def test_it_is_one_graph(name: str, build: BuildLoss, batch: dict[str, Tensor]) -> None:
    inputs = [batch["logits"].requires_grad_(), batch["features"].requires_grad_()]
    loss = build(name, 5)
    values = [each(**batch) for each in (loss, compiled(loss))]
    torch.testing.assert_close(values[1], values[0])
    slopes = [torch.autograd.grad(value, inputs, allow_unused=True) for value in values]
    torch.testing.assert_close(slopes[1], slopes[0])


@pytest.mark.parametrize("name", available_losses())
def test_it_is_mapped_over_batches(name: str, build: BuildLoss, batch: dict[str, Tensor]) -> None:
    loss, indices = build(name, 5), batch["indices"]
    stacked = [torch.stack([batch[key], batch[key].roll(1, 0)]) for key in ("logits", "features")]
    targets = torch.stack([batch["targets"], batch["targets"].flip(0)])

    def value(logits: Tensor, features: Tensor, labels: Tensor) -> Tensor:
        result: Tensor = loss(logits, labels, indices=indices, features=features)
        return result

    one_by_one = [value(*each) for each in zip(*stacked, targets, strict=True)]
    torch.testing.assert_close(torch.vmap(value)(*stacked, targets), torch.stack(one_by_one))


@pytest.mark.parametrize("label", [-100, -1, 5])
def test_a_compiled_loss_refuses_a_class_out_of_range(label: int) -> None:
    loss = compiled(calsweep.losses.MaximumMeanCalibration())
    with pytest.raises(RuntimeError, match="targets must be classes in"):
        loss(torch.zeros(3, 5), torch.tensor([0, 1, label]))
