"""The precision of training: bfloat16 where the hardware supports it, else float32."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch

_ENOUGH = 6e7  # operations per step below which overhead and casts dominate on a CPU


def autocast(device: torch.device, precision: str) -> Any:
    """The autocast context of the forward pass in a training step.

    ``auto`` is bfloat16 on a GPU with native support (T4 and V100 emulate it and are slower),
    float32 elsewhere.
    """
    wanted = precision == "bfloat16" or (
        precision == "auto"
        and device.type == "cuda"
        and torch.cuda.is_bf16_supported(including_emulation=False)
    )
    return torch.autocast(device.type, dtype=torch.bfloat16) if wanted else nullcontext()


@contextmanager
def exact_arithmetic() -> Iterator[None]:
    """Context with exact float32 and deterministic convolutions, regardless of global settings.

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
    """Whether the CPU supports bfloat16 natively; emulation is nine times slower.

    Older versions of torch cannot tell; there the answer is no.
    """
    capabilities: dict[str, bool] = getattr(torch.cpu, "get_capabilities", dict)()
    return any(capabilities.get(name, False) for name in ("avx512_bf16", "amx_bf16"))


def gains_on_cpus(operations: float) -> bool:
    """Whether bfloat16 makes steps of so many operations clearly faster on CPUs that support it."""
    return operations >= _ENOUGH
