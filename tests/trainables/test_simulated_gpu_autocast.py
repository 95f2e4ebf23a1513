"""Models and losses under CUDA autocast, without a GPU.

Fake tensors have shapes, dtypes and a CUDA device, but no numbers. So torch chooses dtypes as it
does on a GPU.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.func import functional_call
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from tests.harness.simulated_gpu import CAN_SIMULATE, NEEDS_NEWER_TORCH

# Some of MODELS are marked slow.
from tests.trainables.models.test_models import MODELS, images, kinds, make, rows
from trainables.losses import available_losses, make_loss

pytestmark = pytest.mark.skipif(not CAN_SIMULATE, reason=NEEDS_NEWER_TORCH)

GPU = torch.device("cuda", 0)
# It computes ranks on the CPU, which needs values; test_contract.py covers it under CPU autocast.
READ_NUMBERS = {"r_aurc"}


class Dtypes(TorchDispatchMode):
    """Records the floating dtypes that operations return.

    Attributes:
        seen: With the operation.
    """

    def __init__(self) -> None:
        super().__init__()
        self.seen: set[tuple[str, torch.dtype]] = set()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        found = func(*args, **(kwargs or {}))
        for each in tree_leaves(found):
            if isinstance(each, Tensor) and each.is_floating_point():
                self.seen.add((func.name(), each.dtype))
        return found


@contextmanager
def cuda_autocast() -> Iterator[None]:
    """CUDA autocast in bfloat16; ``torch.autocast`` disables itself without a GPU."""
    torch.set_autocast_dtype("cuda", torch.bfloat16)
    torch.set_autocast_enabled("cuda", True)
    try:
        yield
    finally:
        torch.set_autocast_enabled("cuda", False)
        torch.clear_autocast_cache()


def fake(mode: FakeTensorMode, tensor: Tensor) -> FakeTensor:
    with torch.no_grad():
        return FakeTensor(mode, torch.empty_like(tensor, device="meta"), GPU)


def fake_state(mode: FakeTensorMode, module: nn.Module) -> dict[str, FakeTensor]:
    """Parameters and all buffers, including non-persistent ones."""
    tensors = dict(module.named_parameters()) | dict(module.named_buffers())
    return {name: fake(mode, each) for name, each in tensors.items()}


@pytest.mark.parametrize("name", MODELS)
def test_models_run_in_bfloat16(name: str) -> None:
    (samples,) = kinds(name, images(3, 32, 32))
    model = make(name, samples, num_classes=4).eval()
    mode, dtypes = FakeTensorMode(allow_non_fake_inputs=True), Dtypes()
    weights = fake_state(mode, model)
    inputs = fake(mode, rows(samples, 2))
    with mode, cuda_autocast(), dtypes:
        logits, features = functional_call(
            model, weights, (inputs,), {"return_features": True}, strict=True
        )
    assert logits.device == features.device == GPU
    assert any(dtype == torch.bfloat16 for _, dtype in dtypes.seen)


@pytest.mark.parametrize("name", sorted(set(available_losses()) - READ_NUMBERS))
def test_losses_compute_in_float32(name: str) -> None:
    mode, dtypes = FakeTensorMode(allow_non_fake_inputs=True), Dtypes()
    loss = make_loss(name, 4)
    loss.on_train_begin(8)
    state = fake_state(mode, loss)
    logits = fake(mode, torch.empty(8, 4, dtype=torch.bfloat16))
    features = fake(mode, torch.empty(8, 3, dtype=torch.bfloat16))
    targets = fake(mode, torch.zeros(8, dtype=torch.int64))
    given = {"indices": targets, "features": features}
    with mode, cuda_autocast(), dtypes:
        value = functional_call(loss, state, (logits, targets), given)
    assert value.device == GPU
    assert {dtype for _, dtype in dtypes.seen} == {torch.float32}
