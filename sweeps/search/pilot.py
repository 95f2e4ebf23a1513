"""The pilot: one run of the baseline before the sweep, which finds the epochs of all trials.

``training.patience`` turns it on. The pilot ends when its validation NLL, averaged over that many
epochs, has not improved for as many epochs. All trials, including the baseline, then train until
the middle of the epochs with the lowest mean.

So it cannot find fewer epochs than half of the patience, or more than its own. Where it ends at one
of these limits, whole trainings with half or twice the epochs decide, see :func:`next_epochs`.
"""

from __future__ import annotations

from collections.abc import Iterable
from statistics import fmean
from typing import Final

from sweeps.search.record import Entry, TrialRecord
from sweeps.search.trial_queue import TrialQueue
from sweeps.sweep_file.sections.training import TrainingSection

ACTION: Final = "Training the baseline to find the epochs of all trials"


class PilotQueue(TrialQueue):
    """A queue of one trial, the pilot: its plan is :attr:`~sweeps.search.plan.Plan.of_pilot`."""

    def should_prune(self, number: int, entries: Iterable[Entry]) -> bool:
        """Whether its validation NLL no longer improves; see :func:`lowest`."""
        history = {e["epoch"]: e for e in (*self.record(number).history, *entries)}
        patience = self.plan.sweep.training.patience
        assert patience is not None
        return len(history) - lowest(history.values(), patience) >= patience


def lowest(history: Iterable[Entry], patience: int) -> int:
    """The last of the ``patience`` consecutive epochs with the lowest mean validation NLL.

    The mean is used because the NLL of single epochs varies by chance before the learning rate has
    fallen. If there are no more than ``patience`` epochs, this is the last one.
    """
    nll = [entry["val_nll"] for entry in history]
    means = [fmean(nll[end - patience : end]) for end in range(patience, len(nll) + 1)]
    return patience + means.index(min(means)) if means else len(nll)


def progress_of(epochs: int, most: int) -> str:
    """A line about the pilot after ``epochs`` of at most ``most`` epochs."""
    return f"{ACTION}: {epochs} of at most {most}"


def common_epochs(pilot: TrialRecord, training: TrainingSection) -> int:
    """The number of epochs that the pilot finds; its own if it was not stopped."""
    patience = training.patience
    if pilot.state != "stopped" or patience is None:
        return pilot.epochs
    return lowest(pilot.history, patience) - (patience - 1) // 2


def next_epochs(epochs: int, pilot: TrialRecord, training: TrainingSection) -> int | None:
    """The number of epochs to compare `epochs` with; None unless the pilot ended at a limit.

    Half of them, or twice as many, up to ``training.longest``.
    """
    patience = training.patience
    if pilot.state != "stopped" or patience is None:
        return 2 * epochs if 2 * epochs <= (training.longest or 0) else None
    return epochs // 2 or None if lowest(pilot.history, patience) == patience else None
