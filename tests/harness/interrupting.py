"""Ctrl-C in a process that continues, and the resources that Ray has released afterwards."""

import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import ray

from sweeps.errors import SweepInterruptedError


def interrupted(
    act: Callable[[], object], folder: Path, trials: str = "trials/*"
) -> pytest.ExceptionInfo[SweepInterruptedError]:
    """Run a sweep, and interrupt it when one of its trials has a checkpoint.

    Args:
        act: Runs it.
        folder: Its own in the storage.
        trials: Pattern of the folders of these trials in it.
    """

    def interrupt() -> None:
        until = time.monotonic() + 240
        while not any(folder.glob(f"{trials}/checkpoints/*")) and time.monotonic() < until:
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    threading.Thread(target=interrupt, daemon=True).start()
    try:
        with pytest.raises(SweepInterruptedError) as caught:
            act()
    finally:
        signal.signal(signal.SIGINT, before)
    return caught


def wait_for_cpus() -> None:
    """Wait until all CPUs of Ray are free, for at most a minute."""
    until = time.monotonic() + 60
    while ray.available_resources().get("CPU") != ray.cluster_resources()["CPU"]:
        assert time.monotonic() < until, ray.available_resources()
        time.sleep(0.5)
