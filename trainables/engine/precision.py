"""When training computes in bfloat16, which some hardware only emulates."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from trainables.engine.workload import Workload

_ENOUGH = 6e7  # operations of a step: below it, a CPU's time goes into starting them and casting


def autocast(device: torch.device, precision: str) -> Any:
    """The context that the model's forward pass of a training step runs in.

    Args:
        device: That it runs on.
        precision: ``float32``, ``bfloat16``, or ``auto``: bfloat16 on a GPU that computes in it
            (T4 and V100 emulate it, and are slower with it), float32 elsewhere.
    """
    wanted = precision == "bfloat16" or (
        precision == "auto"
        and device.type == "cuda"
        and torch.cuda.is_bf16_supported(including_emulation=False)
    )
    return torch.autocast(device.type, dtype=torch.bfloat16) if wanted else nullcontext()


@contextmanager
def exact_arithmetic() -> Iterator[None]:
    """Context with exact float32 and repeatable convolutions, whatever the settings.

    GPUs may round the inputs of convolutions and matrix products to TF32, CPUs to bfloat16.
    """
    backends: Any = torch.backends
    rounding = [
        backends.cuda.matmul,
        *(backends.cudnn.conv, backends.cudnn.rnn),
        *(backends.mkldnn.matmul, backends.mkldnn.conv, backends.mkldnn.rnn),
    ]
    before = [each.fp32_precision for each in rounding]
    cudnn = backends.cudnn
    repeatable = cudnn.deterministic, cudnn.benchmark
    for each in rounding:
        each.fp32_precision = "ieee"
    cudnn.deterministic, cudnn.benchmark = True, False
    try:
        yield
    finally:
        for each, precision in zip(rounding, before, strict=True):
            each.fp32_precision = precision
        cudnn.deterministic, cudnn.benchmark = repeatable


def cpu_has_bfloat16() -> bool:
    """Whether this machine's CPU computes in bfloat16; others emulate it, nine times slower."""
    capabilities = torch.cpu.get_capabilities()
    return any(capabilities.get(name, False) for name in ("avx512_bf16", "amx_bf16"))


def gains_on_cpus(workload: Workload, batch_size: float) -> bool:
    """Whether bfloat16 makes training clearly faster on CPUs that compute in it.

    Args:
        workload: Of the model.
        batch_size: Samples of a step of one worker.
    """
    return workload.operations * batch_size >= _ENOUGH
