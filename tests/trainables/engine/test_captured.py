"""What may not change during a step that is captured; the rest needs a GPU (test_gpu.py)."""

from collections.abc import Callable

import pytest
import torch
from torch import nn

from trainables.engine.captured import attributes_of


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.BatchNorm1d(2)
        self.steps = 0
        self.kept: list[int] = []
        self.known: dict[str, torch.Tensor] = {"mean": torch.zeros(2)}


def count(layer: Layer) -> None:
    layer.steps += 1


def keep(layer: Layer) -> None:
    layer.kept.append(1)


def replace(layer: Layer) -> None:
    layer.known["mean"] = layer.known["mean"] + 1


def inside(layer: Layer) -> None:
    layer.inner.momentum = 0.5


@pytest.mark.parametrize("change", [count, keep, replace, inside])
def test_a_changed_attribute_is_noticed(change: Callable[[Layer], None]) -> None:
    layer = Layer()
    before = attributes_of([layer])
    change(layer)
    assert attributes_of([layer]) != before


def test_values_of_tensors_may_change() -> None:
    layer = Layer()
    before = attributes_of([layer])
    layer.inner(torch.randn(4, 2)).sum().backward()
    torch.optim.SGD(layer.parameters(), 0.1).step()
    layer.known["mean"].add_(1)
    assert attributes_of([layer]) == before
