"""The device of a trial: its index, its memory, and whether it still works."""

import gc

import torch

CONTEXT_MEMORY = 700 * 2**20
"""Conservative estimate of the GPU memory of a process besides its tensors, in bytes."""


class DeviceFailedError(RuntimeError):
    """This process can no longer use its accelerator; another process may."""


def numbered(device: torch.device) -> torch.device:
    """A device with an explicit index, which ``torch.cuda.set_device`` and others need."""
    if device.type == "cpu" or device.index is not None:
        return device
    return torch.device(device.type, 0)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error is an out-of-memory error, of a device or of the machine."""
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
        return True
    # PyTorch has no exception type for errors of the driver, cuBLAS or its CPU allocator.
    said = str(error).lower()
    signs = ("out of memory", "can't allocate memory", "alloc_failed")
    return isinstance(error, RuntimeError) and any(sign in said for sign in signs)


def has_failed(device: torch.device, error: BaseException) -> bool:
    """Whether this process can no longer use its accelerator, as after a device-side assertion.

    Then all later calls fail, too, independent of the error that revealed it.
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
    except RuntimeError:  # for example, there is no driver, so other processes would fail, too
        return False
    return False


def limit_memory(device: torch.device, share: float) -> None:
    """Limits this process to a share of the memory of a GPU, in (0, 1]."""
    if device.type != "cuda":
        return
    if share < 1:
        # The limit applies only to tensors, not to the context of the driver.
        context = CONTEXT_MEMORY / torch.cuda.get_device_properties(device).total_memory
        share = max(share - context, share / 2)
    torch.cuda.set_per_process_memory_fraction(share, device)


def memory_use(device: torch.device) -> dict[str, float]:
    """Peak GPU memory of this process since the last call.

    ``gpu_memory`` in bytes, for tensors, allocator and driver together, and ``gpu_memory_share``,
    the fraction of the GPU memory. Empty for other devices.
    """
    if device.type != "cuda":
        return {}
    used = torch.cuda.max_memory_reserved(device) + CONTEXT_MEMORY
    torch.cuda.reset_peak_memory_stats(device)
    total = torch.cuda.get_device_properties(device).total_memory
    return {"gpu_memory": float(used), "gpu_memory_share": used / total}


def release_memory(device: torch.device) -> None:
    """Release GPU memory that no tensor uses, for other processes."""
    if device.type == "cuda":
        gc.collect()  # reference cycles may hold tensors
        torch.cuda.empty_cache()
