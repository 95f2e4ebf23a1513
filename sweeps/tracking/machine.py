"""Measures the load of a machine, with the names of MLflow's system metrics."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Any

import psutil


class Machine:
    """Repeated measurements of this machine."""

    def __init__(self) -> None:
        self._gpus = _nvidia_gpus()
        self._network = psutil.net_io_counters()

    def sample(self) -> dict[str, float]:
        """CPUs, memory, disk, network traffic since the start, and each Nvidia GPU.

        The CPU load is measured since the last call; the first value is meaningless.
        """
        memory, disk = psutil.virtual_memory(), psutil.disk_usage(os.sep)
        found = {
            "cpu_utilization_percentage": psutil.cpu_percent(),
            "system_memory_usage_megabytes": memory.used / 1e6,
            "system_memory_usage_percentage": 100 * memory.used / memory.total,
            "disk_usage_percentage": disk.percent,
            "disk_usage_megabytes": disk.used / 1e6,
            "disk_available_megabytes": disk.free / 1e6,
        }
        now, first = psutil.net_io_counters(), self._network
        if now is not None and first is not None:  # otherwise the machine has no network
            found["network_receive_megabytes"] = (now.bytes_recv - first.bytes_recv) / 1e6
            found["network_transmit_megabytes"] = (now.bytes_sent - first.bytes_sent) / 1e6
        for number, gpu in enumerate(self._gpus):
            values = _sample_gpu(gpu).items()
            found |= {f"gpu_{number}_{name}": value for name, value in values}
        return found


def _nvidia_gpus() -> list[Any]:
    import pynvml

    with suppress(pynvml.NVMLError):
        pynvml.nvmlInit()
        count = pynvml.nvmlDeviceGetCount()
        return [pynvml.nvmlDeviceGetHandleByIndex(number) for number in range(count)]
    return []


def _sample_gpu(gpu: Any) -> dict[str, float]:
    """Measure a GPU; not every GPU reports every metric."""
    import pynvml

    found: dict[str, float] = {}
    with suppress(pynvml.NVMLError):
        memory = pynvml.nvmlDeviceGetMemoryInfo(gpu)
        found["memory_usage_megabytes"] = memory.used / 1e6
        found["memory_usage_percentage"] = 100 * memory.used / memory.total
    with suppress(pynvml.NVMLError):
        found["utilization_percentage"] = pynvml.nvmlDeviceGetUtilizationRates(gpu).gpu
    with suppress(pynvml.NVMLError):
        found["power_usage_watts"] = pynvml.nvmlDeviceGetPowerUsage(gpu) / 1000
    return found
