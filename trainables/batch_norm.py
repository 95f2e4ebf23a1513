"""Batch normalisation over the workers of a trial."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch import distributed as dist
from torch.nn.modules.batchnorm import _BatchNorm

from trainables.distributed import world_size


def synchronised(model: nn.Module, device: torch.device) -> nn.Module:
    """The model with batch statistics taken over all workers; its parameters stay the same ones.

    On a GPU by torch's ``SyncBatchNorm``, which runs there only; on a CPU by the one here.
    """
    if device.type == "cuda":
        return nn.SyncBatchNorm.convert_sync_batchnorm(model)  # type: ignore[no-any-return,no-untyped-call]
    for module in model.modules():
        for name, child in module.named_children():
            if isinstance(child, _BatchNorm):
                setattr(module, name, _SynchronisedBatchNorm(child))
    return model


class _SynchronisedBatchNorm(_BatchNorm):
    """As ``torch.nn.SyncBatchNorm``, on any device and for shares of any size.

    Args:
        single: The layer that it takes the place of, with its parameters and buffers.
    """

    def __init__(self, single: _BatchNorm) -> None:
        super().__init__(single.num_features, single.eps, single.momentum, affine=False)
        self.affine = single.affine
        self.weight, self.bias = single.weight, single.bias
        self._buffers = single._buffers
        self.track_running_stats = single.track_running_stats

    def forward(self, input: Tensor) -> Tensor:
        """Of shape (n, C, ...), normalised; n may differ between workers."""
        if not self.training or world_size() == 1:
            return super().forward(input)
        dims = [dim for dim in range(input.dim()) if dim != 1]
        shape = [1, -1] + [1] * (input.dim() - 2)
        count: Tensor = _AllReduce.apply(input.new_tensor(float(input.numel() // input.shape[1])))
        mean = _AllReduce.apply(input.sum(dims)) / count
        centred = input - mean.view(shape)
        variance = _AllReduce.apply(centred.square().sum(dims)) / count
        if self.track_running_stats:
            self._track(mean.detach(), variance.detach() * (count / (count - 1)))
        normed: Tensor = centred * torch.rsqrt(variance + self.eps).view(shape)
        if self.affine:
            normed = normed * self.weight.view(shape) + self.bias.view(shape)
        return normed

    def _track(self, mean: Tensor, variance: Tensor) -> None:
        assert self.num_batches_tracked is not None
        assert self.running_mean is not None and self.running_var is not None
        self.num_batches_tracked.add_(1)
        share = 1 / float(self.num_batches_tracked) if self.momentum is None else self.momentum
        self.running_mean.lerp_(mean, share)
        self.running_var.lerp_(variance, share)

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() < 2:
            raise ValueError(f"expected input of 2 or more dimensions, got {input.dim()}")


class _AllReduce(torch.autograd.Function):
    """The sum over workers; its gradient is the sum of theirs."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor) -> Tensor:
        total = tensor.clone()
        dist.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        total = grad.clone()
        dist.all_reduce(total)
        return total
