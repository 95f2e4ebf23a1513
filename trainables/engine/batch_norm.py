"""Batch normalisation: synchronised over workers in training, folded into convolutions in eval."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from trainables.runtime.distributed import world_size

_BatchNorm: TypeAlias = nn.BatchNorm1d | nn.BatchNorm2d | nn.BatchNorm3d | nn.SyncBatchNorm
_PLAIN = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)
_KNOWN = ("torch.nn.", "trainables.models.")  # packages whose layers can be folded


@contextmanager
def folded(model: nn.Module) -> Iterator[None]:
    """Context in which each batch norm is folded into the preceding convolution; eval mode only.

    Outputs are equal up to rounding, and a small network takes half the time on a CPU. A network
    with third-party layers is not changed, because they might use the value in between.
    """
    modules = list(model.modules())
    known = all(type(module).__module__.startswith(_KNOWN) for module in modules)
    pairs = [
        (layers, place, first, second)
        for layers in modules
        if known and type(layers) is nn.Sequential
        for place, (first, second) in enumerate(pairwise(layers))
        if type(first) is nn.Conv2d
        and type(second) is nn.BatchNorm2d
        and second.track_running_stats
    ]
    try:
        for layers, place, first, second in pairs:
            layers[place], layers[place + 1] = fuse_conv_bn_eval(first, second), nn.Identity()
        yield
    finally:
        for layers, place, first, second in pairs:
            layers[place], layers[place + 1] = first, second


def synchronised(model: nn.Module, device: torch.device) -> nn.Module:
    """The model with batch statistics over all workers and unchanged parameter objects.

    On a GPU, it uses torch's ``SyncBatchNorm``, which supports only GPUs. ``BatchNormAct2d`` of
    timm keeps its activation and dropout.

    Raises:
        ValueError: A layer is an unknown kind of batch normalisation.
    """
    for parent, name, layer in _batch_norms(model):
        on_gpu = device.type == "cuda"
        setattr(parent, name, _on_gpu(layer) if on_gpu else _SynchronisedBatchNorm(layer))
    return model


def _batch_norms(model: nn.Module) -> list[tuple[nn.Module, str, _BatchNorm]]:
    found = [
        (parent, name, layer)
        for parent in model.modules()
        for name, layer in parent.named_children()
        if isinstance(layer, _PLAIN)
    ]
    for _, name, layer in found:
        if type(layer) not in _PLAIN and not _has_activation(layer):
            kind = type(layer)
            raise ValueError(
                f"sync_batch_norm: layer {name!r} is a {kind.__module__}.{kind.__qualname__}, of "
                "which it is not known what it does besides; allowed: torch.nn's own batch norms "
                "and timm's BatchNormAct2d; set training.sync_batch_norm to false"
            )
    return found


def _has_activation(layer: _BatchNorm) -> bool:
    """Whether the layer is timm's batch norm with dropout and activation."""
    kind = type(layer)
    return kind.__name__ == "BatchNormAct2d" and kind.__module__.startswith("timm.")


def _on_gpu(layer: _BatchNorm) -> nn.Module:
    if _has_activation(layer):
        from timm.layers import convert_sync_batchnorm

        return convert_sync_batchnorm(layer)  # type: ignore[no-any-return]
    return nn.SyncBatchNorm.convert_sync_batchnorm(layer)  # type: ignore[no-any-return,no-untyped-call]


class _SynchronisedBatchNorm(nn.Module):
    """Like ``torch.nn.SyncBatchNorm``, on any device and for worker batches of any size.

    Statistics are at least float32, also under autocast. The parameters and buffers of ``single``
    are reused.
    """

    weight: nn.Parameter | None
    bias: nn.Parameter | None
    running_mean: Tensor | None
    running_var: Tensor | None
    num_batches_tracked: Tensor | None

    def __init__(self, single: _BatchNorm) -> None:
        super().__init__()
        self.eps, self.momentum = single.eps, single.momentum
        for name in ("weight", "bias"):
            self.register_parameter(name, getattr(single, name))
        for name in ("running_mean", "running_var", "num_batches_tracked"):
            self.register_buffer(name, getattr(single, name))
        for name, layer in single.named_children():  # "drop" and "act" of timm
            self.add_module(name, layer)
        self.train(single.training)

    def forward(self, input: Tensor) -> Tensor:
        """Normalises an input of shape (n, C, ...); n may differ between workers."""
        if self.training:
            normed = self._normalise(input)
        else:
            mean, variance = self.running_mean, self.running_var
            normed = F.batch_norm(
                input, mean, variance, self.weight, self.bias, mean is None, eps=self.eps
            )
        for layer in self.children():
            normed = layer(normed)
        return normed

    def _normalise(self, input: Tensor) -> Tensor:
        dtype = input.dtype
        input = input.to(torch.promote_types(dtype, torch.float32))
        dims = [dim for dim in range(input.dim()) if dim != 1]
        shape = [1, -1] + [1] * (input.dim() - 2)
        count = _over_workers(input.new_tensor(float(input.numel() // input.shape[1])))
        mean = _over_workers(input.sum(dims)) / count
        centred = input - mean.view(shape)
        variance = _over_workers(centred.square().sum(dims)) / count
        if self.running_mean is not None:
            self._track(mean.detach(), variance.detach() * (count / (count - 1)))
        normed: Tensor = centred * torch.rsqrt(variance + self.eps).view(shape)
        if self.weight is not None:
            normed = normed * self.weight.view(shape)
        if self.bias is not None:
            normed = normed + self.bias.view(shape)
        return normed.to(dtype)

    def _track(self, mean: Tensor, variance: Tensor) -> None:
        assert self.num_batches_tracked is not None
        assert self.running_mean is not None and self.running_var is not None
        self.num_batches_tracked.add_(1)
        share = 1 / float(self.num_batches_tracked) if self.momentum is None else self.momentum
        self.running_mean.lerp_(mean, share)
        self.running_var.lerp_(variance, share)


def _over_workers(own: Tensor) -> Tensor:
    """The sum over workers, whose gradient is the sum of the workers' gradients."""
    if world_size() == 1:
        return own
    from torch.distributed.nn.functional import all_reduce  # slow to import

    total: Tensor = all_reduce(own)  # type: ignore[no-untyped-call]
    return total
