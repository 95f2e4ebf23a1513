"""The PyTorch process group of the workers of a trial, set up by Ray Train."""

import os
import socket
from dataclasses import dataclass
from typing import Any

import ray
from ray import train
from ray.train.backend import Backend, BackendConfig


@dataclass
class ProcessGroup(BackendConfig):
    """Replaces ``ray.train.torch.TorchConfig``; imports PyTorch only in the workers.

    ``TorchConfig`` also imports it in two waiting processes, which takes seconds each. The backend
    is nccl if each worker has a GPU, else gloo.
    """

    on_gpus: bool = False

    @property
    def backend_cls(self) -> type[Backend]:
        """The class that Ray Train calls when the workers have started."""
        return _Backend


class _Backend(Backend):
    share_cuda_visible_devices = True  # nccl is faster among GPUs that see each other

    def on_start(self, worker_group: Any, backend_config: BackendConfig) -> None:
        assert isinstance(backend_config, ProcessGroup)
        host, port = worker_group.execute_single(0, _meeting_point)
        worker_group.execute(_join, host, port, on_gpus=backend_config.on_gpus)


def _meeting_point() -> tuple[str, int]:
    """Address of this node, and a free port."""
    with socket.socket() as probe:
        probe.bind(("", 0))
        return ray.util.get_node_ip_address(), probe.getsockname()[1]


def _join(host: str, port: int, *, on_gpus: bool) -> None:
    """Join the group, and set the environment variables of ``torchrun`` for custom loops."""
    context = train.get_context()
    os.environ |= {
        "MASTER_ADDR": host,
        "MASTER_PORT": str(port),
        "RANK": str(context.get_world_rank()),
        "WORLD_SIZE": str(context.get_world_size()),
        "LOCAL_RANK": str(context.get_local_rank()),
        "LOCAL_WORLD_SIZE": str(context.get_local_world_size()),
        "NODE_RANK": str(context.get_node_rank()),
        "ACCELERATE_TORCH_DEVICE": str(worker_device(on_gpus=on_gpus)),
    }
    from torch import distributed

    distributed.init_process_group("nccl" if on_gpus else "gloo", init_method="env://")


def worker_device(*, on_gpus: bool) -> Any:
    """The ``torch.device`` of this worker; a GPU also becomes the current device."""
    import torch

    if not on_gpus:
        return torch.device("cpu")
    from ray.train.torch import get_device

    device = get_device()
    torch.cuda.set_device(device)
    return device
