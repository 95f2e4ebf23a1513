"""Small sweeps of digits, and losses that fail in every way."""

from pathlib import Path
from typing import Any

from rich.console import Console

from sweeps.search.record import TrialRecord
from sweeps.service.course import EndedSweep
from sweeps.service.running import run_sweep
from sweeps.sweep_file.loading import parse_sweep

OWN_LOSSES = '''
import os, signal
from pathlib import Path
import torch
from torch.nn.functional import cross_entropy
from trainables.losses import CalibrationLoss

class Exploding(CalibrationLoss):
    def compute(self, logits, targets, indices, features):
        return cross_entropy(logits, targets) * float("nan")

class Greedy(CalibrationLoss):
    def compute(self, logits, targets, indices, features):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 80 GiB")

class Broken(CalibrationLoss):
    def compute(self, logits, targets, indices, features):
        raise KeyError("a bug of the user's")

class Constant(CalibrationLoss):
    """Teaches nothing: the net stays nearly uniform, with an ECE near zero."""
    def compute(self, logits, targets, indices, features):
        return (logits ** 2).mean()

class Asserting(CalibrationLoss):
    """Breaks the process's accelerator once, in the second epoch."""
    def __init__(self, num_classes, alpha=1.0):
        super().__init__(num_classes)
        self.epoch = 0
    def on_epoch_end(self):
        self.epoch += 1
    def compute(self, logits, targets, indices, features):
        broken = Path(__file__).with_name("broken")
        if self.epoch == 1 and not broken.exists():
            broken.write_text(str(os.getpid()))
            raise torch.AcceleratorError("CUDA error: device-side assert triggered")
        if broken.exists():  # every later call in that process fails
            assert broken.read_text() != str(os.getpid())
        return cross_entropy(logits, targets)

class Mortal(CalibrationLoss):
    """Kills its own process once, in the second epoch."""
    def __init__(self, num_classes, alpha=1.0):
        super().__init__(num_classes)
        self.epoch = 0
    def on_epoch_end(self):
        self.epoch += 1
    def compute(self, logits, targets, indices, features):
        mark = Path(__file__).with_name("died")
        if self.epoch == 1 and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return cross_entropy(logits, targets)
'''


def sweep_of(name: str, **sections: Any) -> dict[str, Any]:
    """The content of a sweep file."""
    return {
        "name": name,
        "dataset": {"name": "digits", "train_samples": 300},
        "model": {"name": "small_cnn", "width": 8},
        "losses": ["focal", "label_smoothing"],
        "training": {"epochs": 3, "batch_size": 64, "lr": 0.05},
        "search": {"trials": 7, "sampler": "tpe"},
        "selection": {"finalists": 1, "seeds": 1},
        "scaling": {"max_concurrent": 1},  # one process to start
        **sections,
    }


def run(folder: Path, name: str, debug: bool = True, **sections: Any) -> EndedSweep:
    """Run a small sweep in the storage of a folder; in this process, or with Ray."""
    sweep = parse_sweep(sweep_of(name, **sections))
    return run_sweep(sweep, str(folder / "store"), debug=debug, console=Console(quiet=True))


def of(result: EndedSweep, loss: str) -> TrialRecord:
    """The trial of an own loss."""
    return next(record for record in result.records if record.loss == f"own_losses:{loss}")
