"""What a search comes to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchmarks.tabular.curves import Curves
from sweeps.sweep_file.schema import SweepFile
from trainables.contract.setting import Setting


@dataclass(frozen=True)
class Choice:
    """What a search reached.

    Attributes:
        setting: The recorded setting that it chose, the baseline if it found none.
        epoch: Of its training that is kept.
        promised: What validation said of it, the metric that the table is about.
        epochs: How many were trained in all.
    """

    setting: Setting
    epoch: int
    promised: float
    epochs: int


Policy = Callable[[SweepFile, Curves, int, Sequence[int]], Choice]
