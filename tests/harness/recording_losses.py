"""Losses that record the process of a trial."""

import os
from pathlib import Path

RECORDING = """
import os, time
from pathlib import Path
from torch.nn.functional import cross_entropy
from trainables.losses import CalibrationLoss

class Recording(CalibrationLoss):
    looks_across_batch = False
    processes = Path(__file__).with_name("processes")
    def __init__(self, num_classes, alpha=1.0):
        super().__init__(num_classes)
        with self.processes.open("a") as file:
            file.write(f"{os.getpid()}\\n")
    def compute(self, logits, targets, indices, features):
        return cross_entropy(logits, targets)

class Waiting(Recording):
    def compute(self, logits, targets, indices, features):
        until = time.monotonic() + 60  # a short trial would be over before the second one starts
        while len(set(self.processes.read_text().split())) < 3 and time.monotonic() < until:
            time.sleep(0.1)
        return super().compute(logits, targets, indices, features)
"""
"""The module, to be written into a folder of its own losses; the second waits for two processes
besides the sweep's own."""


def recorded_processes(folder: Path) -> list[str]:
    """The processes that created the loss, in order, without this one, which checks sweeps."""
    processes = (folder / "processes").read_text().split()
    return [process for process in processes if process != str(os.getpid())]
