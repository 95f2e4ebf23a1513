"""The size of a model, and the memory and arithmetic of its training step."""

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from trainables.data.core.base import Dataset
from trainables.models import model_for, without_weights
from trainables.models.base import on_usable_device
from trainables.runtime.devices import CONTEXT_MEMORY

_WORKSPACES = 66 * 2**20  # bytes that cuBLAS keeps for a stream, on an H100
_EVALUATION = 8  # memory of exact convolutions, in largest layer outputs; 2 to 20 on an H100
_SAMPLES = 2  # samples that are passed through the model to measure it


@dataclass(frozen=True)
class Workload:
    """Cost of training, in bytes of float32 and floating-point operations.

    Attributes:
        parameters: Bytes of the weights.
        saved: Bytes per sample that the forward pass keeps for the backward pass.
        largest: Bytes per sample of the largest layer output.
        operations: Operations per sample of the forward pass (convolutions, matrix products,
            attention).
        layers: Number of leaf layers; each launches a few kernels per step.
        data: Bytes of all splits as stored.
    """

    parameters: int
    saved: float
    largest: float
    operations: float
    layers: int
    data: int


def measure(name: str, options: dict[str, object], dataset: Dataset) -> Workload:
    """Measures a model by passing two samples through it on the CPU; downloads no weights."""
    with torch.random.fork_rng(devices=[]):
        model, inputs = _model_and_inputs(name, options, dataset)
        # Streamed inputs do not count, as they arrive in batches.
        data = sum(
            split.targets.nbytes + (0 if split.is_streamed else split.inputs.nbytes)
            for split in (dataset.train, dataset.validation, dataset.test)
        )
        return on_usable_device(lambda inputs: _measure(model, inputs, data), model, inputs)


def operations_of_layers(name: str, options: dict[str, object], dataset: Dataset) -> float:
    """Operations per sample of the forward pass in linear layers and convolutions alone.

    Enough to decide whether a step is large, and ten times as fast as :func:`measure`, whose
    counter imports PyTorch's compiler.
    """
    operations = 0

    def add(layer: nn.Module, _: Any, output: Tensor) -> None:
        nonlocal operations
        row: Tensor = layer.weight[0]  # type: ignore[index]  # its product with inputs is an output
        operations += 2 * row.numel() * output.numel()

    with torch.random.fork_rng(devices=[]), torch.no_grad():
        model, inputs = _model_and_inputs(name, options, dataset)
        for layer in model.modules():
            if isinstance(layer, nn.Linear | nn.Conv1d | nn.Conv2d | nn.Conv3d):
                layer.register_forward_hook(add)
        on_usable_device(model.train(), model, inputs)
    return operations / len(inputs)


def _model_and_inputs(
    name: str, options: dict[str, object], dataset: Dataset
) -> tuple[nn.Module, Tensor]:
    """An untrained model, and two samples for it."""
    model = model_for(dataset, name, without_weights(name, options))
    return model, dataset.samples.prepare(torch.from_numpy(dataset.train.rows(slice(_SAMPLES))))


def _measure(model: nn.Module, inputs: Tensor, data: int) -> Workload:
    from torch.utils.flop_counter import FlopCounterMode  # imports Triton

    own = {p.data_ptr() for p in model.parameters()}
    saved: dict[int, int] = {}
    layers = [module for module in model.modules() if not list(module.children())]
    largest = 0.0

    def keep(tensor: Tensor) -> Tensor:
        if tensor.data_ptr() not in own:
            saved[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    def look(layer: nn.Module, _: Any, output: Any) -> None:
        nonlocal largest
        if isinstance(output, Tensor):
            largest = max(largest, output.nbytes)

    hooks = [layer.register_forward_hook(look) for layer in layers]
    counter = FlopCounterMode(display=False)
    with counter, torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        model.train()(inputs)
    for hook in hooks:
        hook.remove()
    return Workload(
        parameters=sum(p.nbytes for p in model.parameters()),
        saved=sum(saved.values()) / len(inputs),
        largest=largest / len(inputs),
        operations=counter.get_total_flops() / len(inputs),
        layers=len(layers),
        data=data,
    )


def device_memory(workload: Workload, batch_size: int, eval_batch_size: int) -> float:
    """Estimate of the GPU memory that a trial needs, in bytes.

    The sum of the driver's context, the libraries' workspaces, weights with gradients and two
    optimiser moments, the data, the training step, whose memory a captured step keeps, and the
    evaluation step. ``batch_size`` counts each view of a sample.
    """
    tensors = 4 * workload.parameters + workload.data + batch_size * workload.saved
    evaluation = _EVALUATION * eval_batch_size * workload.largest
    return CONTEXT_MEMORY + _WORKSPACES + tensors + evaluation


def busy_share(workload: Workload, batch_size: int) -> float:
    """Rough estimate of the fraction of time that one trial keeps a GPU busy, 0 to 1.

    Compares the arithmetic at 30 teraflops with the time that one process needs to launch the
    kernels: about six per layer and step, 5 µs each.
    """
    arithmetic = 3 * workload.operations * batch_size / 30e12
    starting = 6 * workload.layers * 5e-6
    return min(1.0, arithmetic / max(arithmetic, starting, math.ulp(0.0)))
