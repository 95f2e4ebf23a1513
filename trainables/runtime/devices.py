"""The device of a trial: its number, its memory, and whether it still works."""

from __future__ import annotations

import gc

import torch

CONTEXT_MEMORY = 700 * 2**20
"""Bytes of GPU memory that a process takes besides its tensors, estimated on the safe side."""


class DeviceFailedError(RuntimeError):
    """This process can no longer use its accelerator; another process may."""


def numbered(device: torch.device) -> torch.device:
    """A device with its number, which ``torch.cuda.set_device`` and others need."""
    if device.type == "cpu" or device.index is not None:
        return device
    return torch.device(device.type, 0)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that the memory of a device, or of the machine, is used up."""
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
        return True
    # PyTorch has no type for what the driver, cuBLAS or its own allocator for CPUs say.
    said = str(error).lower()
    signs = ("out of memory", "can't allocate memory", "alloc_failed")
    return isinstance(error, RuntimeError) and any(sign in said for sign in signs)


def has_failed(device: torch.device, error: BaseException) -> bool:
    """Whether an accelerator is lost to this process, as after a device-side assertion.

    Every later call then fails as well, whatever the error was that made it known.

    Args:
        device: The trial's.
        error: What the trial ended with.
    """
    if is_out_of_memory(error):
        return False
    if isinstance(error, torch.AcceleratorError):
        return True
    if device.type == "cpu":
        return False
    try:
        torch.accelerator.synchronize(device)
    except torch.AcceleratorError:
        return True
    except RuntimeError:  # there is no driver, say: no other process would do better
        return False
    return False


def limit_memory(device: torch.device, share: float) -> None:
    """Keep this process within its share of a GPU's memory.

    Args:
        device: A GPU; for other devices nothing is done.
        share: In (0, 1]; 1 is the whole GPU.
    """
    if device.type != "cuda":
        return
    if share < 1:
        # The limit holds for tensors alone; the driver's context comes on top.
        context = CONTEXT_MEMORY / torch.cuda.get_device_properties(device).total_memory
        share = max(share - context, share / 2)
    torch.cuda.set_per_process_memory_fraction(share, device)


def memory_use(device: torch.device) -> dict[str, float]:
    """The most memory that this process has taken of a GPU since the last call.

    Returns:
        ``gpu_memory`` in bytes, tensors, allocator and driver together, and ``gpu_memory_share`` of
        the GPU's. Empty for other devices.
    """
    if device.type != "cuda":
        return {}
    used = torch.cuda.max_memory_reserved(device) + CONTEXT_MEMORY
    torch.cuda.reset_peak_memory_stats(device)
    total = torch.cuda.get_device_properties(device).total_memory
    return {"gpu_memory": float(used), "gpu_memory_share": used / total}


def release_memory(device: torch.device) -> None:
    """Return the memory of a GPU that no tensor needs, so that other processes can have it."""
    if device.type == "cuda":
        gc.collect()  # tensors may be held by reference cycles
        torch.cuda.empty_cache()
