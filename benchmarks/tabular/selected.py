"""The setting that a policy selected."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchmarks.tabular.curves import Curves
from sweeps.sweep_file.schema import SweepFile
from trainables.contract.setting import Setting


@dataclass(frozen=True)
class Selected:
    """The result of a search.

    Attributes:
        setting: The selected recorded setting; the baseline if no setting was selected.
        epoch: The epoch of the kept checkpoint.
        promised: The metric of the table on the validation split.
        epochs: Total number of trained epochs.
    """

    setting: Setting
    epoch: int
    promised: float
    epochs: int


Policy = Callable[[SweepFile, Curves, int, Sequence[int]], Selected]
