"""Communication between data-parallel workers; without a process group, there is one worker.

Gradients follow the convention of ``DistributedDataParallel``, which averages them over workers:
every worker returns the loss of the *global* batch, and its backward pass computes the gradient of
that loss with respect to the worker's own samples, times the number of workers.
"""

from collections.abc import Callable, Iterable
from typing import TypeVar

import torch
from torch import Tensor, nn
from torch import distributed as dist

T = TypeVar("T")


def world_size() -> int:
    """Number of workers; 1 without a process group."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def rank() -> int:
    """Rank of this worker, from 0; 0 without a process group."""
    return dist.get_rank() if dist.is_available() and dist.is_initialized() else 0


def from_first_worker(make: Callable[[], T], device: torch.device) -> T:
    """Calls ``make`` on the first worker and returns its picklable result on every worker."""
    made = [make() if rank() == 0 else None]
    if world_size() > 1:
        dist.broadcast_object_list(made, src=0, device=device)
    return made[0]  # type: ignore[return-value]


def all_gather(tensor: Tensor) -> Tensor:
    """Concatenates the tensors (n, ...) of all workers along dimension 0, in order of rank.

    n may differ between workers, and be 0; exchanging it synchronises with the device.
    Differentiable, if every worker computes the same number from the result: backward returns the
    gradient of the worker's own rows, times the number of workers (see the module).
    """
    if world_size() == 1:
        return tensor
    size = torch.tensor([len(tensor)], device=tensor.device)
    sizes_out = [torch.empty_like(size) for _ in range(world_size())]
    dist.all_gather(sizes_out, size)
    sizes = torch.cat(sizes_out).tolist()
    # Gloo gathers only tensors of equal shape, so shorter ones are padded.
    padded = tensor.new_zeros(max(sizes), *tensor.shape[1:])
    padded[: len(tensor)] = tensor.detach()
    gathered = [torch.empty_like(padded) for _ in sizes]
    dist.all_gather(gathered, padded)
    parts = [part[:n] for part, n in zip(gathered, sizes, strict=True)]
    parts[rank()] = with_scaled_gradient(tensor, world_size())
    return torch.cat(parts)


def global_mean(local_mean: Tensor, count: int) -> Tensor:
    """Mean over the samples of all workers, from a worker's scalar mean over its ``count`` samples.

    Differentiable by the convention of the module: averaged over workers, the gradient is that of
    the global mean, even if workers have different numbers of samples.
    """
    if world_size() == 1:
        return local_mean
    totals = torch.stack([local_mean.detach() * count, torch.full_like(local_mean, count)])
    dist.all_reduce(totals)
    change = local_mean - local_mean.detach()  # 0, for the gradient
    return (totals[0] + count * world_size() * change) / totals[1]


def with_scaled_gradient(tensor: Tensor, scale: Tensor | float) -> Tensor:
    """The same values, with a gradient that is multiplied by ``scale``."""
    same = tensor.view_as(tensor)
    if same.requires_grad:
        same.register_hook(lambda gradient: gradient * scale)  # type: ignore[no-untyped-call]
    return same


def average_gradients(parameters: Iterable[nn.Parameter]) -> None:
    """Replaces gradients by their mean over workers, like ``DistributedDataParallel``.

    A gradient that exists on only some workers counts as 0 on the others. All workers pass the same
    parameters in the same order.
    """
    learnt = [each for each in parameters if each.requires_grad]
    if world_size() == 1 or not learnt:
        return
    used = torch.tensor([each.grad is not None for each in learnt], device=learnt[0].device).int()
    dist.all_reduce(used)
    for parameter, count in zip(learnt, used.tolist(), strict=True):
        if count:
            gradient = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
            dist.all_reduce(gradient)
            parameter.grad = gradient / world_size()
