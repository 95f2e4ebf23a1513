"""What the intervals of differences are computed from."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch import Tensor

from trainables.metrics.inference.clusters import Clusters
from trainables.metrics.inference.seed_noise import SeedNoise
from trainables.metrics.inference.selection import Selection


@dataclass(frozen=True)
class Runs:
    """Probabilities (N, K) of all runs per setting, ours and theirs first, and labels (N,).

    ``units`` are what is independent; ``same`` says whether both settings are the same networks.
    """

    groups: Sequence[Sequence[Tensor]]
    labels: Tensor
    decisions: int
    units: Clusters
    same: bool


Interval = tuple[float, float, float]
"""Both ends, and the variance over samples."""

UNKNOWN: Interval = (-math.inf, math.inf, 0.0)

Ends = Callable[[SeedNoise, Selection], Interval]
Method = Callable[[Runs], Ends]
