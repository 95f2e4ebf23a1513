"""A loss that is slow while there is a file ``slow`` beside it."""

import time
from pathlib import Path

from torch.nn.functional import cross_entropy

from trainables.losses import CalibrationLoss


class Slow(CalibrationLoss):
    def compute(self, logits, targets, indices, features):
        if Path(__file__).with_name("slow").exists():
            time.sleep(0.3)
        return cross_entropy(logits, targets)
