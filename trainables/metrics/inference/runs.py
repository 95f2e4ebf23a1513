"""What the intervals of differences are computed from: runs, and the noise of their seeds."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import variance

from torch import Tensor

from trainables.metrics.inference.clusters import Clusters
from trainables.metrics.inference.selection import Selection


@dataclass(frozen=True)
class SeedNoise:
    """Variance over seeds of the mean of our runs, the mean of theirs and their difference.

    `runs` are their numbers; `same` says whether they are the same networks.
    """

    ours: float
    theirs: float
    difference: float
    freedom: int
    runs: tuple[int, int]
    same: bool

    def with_runs(self, count: int) -> "SeedNoise":
        """The same with this many runs of both, or the present number if that is larger."""
        more = max(count, self.runs[0]), max(count, self.runs[1])
        ours, theirs = self.ours * self.runs[0] / more[0], self.theirs * self.runs[1] / more[1]
        both = self.difference * self.runs[0] / more[0] if self.same else ours + theirs
        added = more[0] - self.runs[0] + (0 if self.same else more[1] - self.runs[1])
        return SeedNoise(ours, theirs, both, self.freedom + added, more, self.same)


def seed_noise(values: Sequence[Sequence[float]], same_runs: bool) -> SeedNoise:
    """Estimated from the metric of each run, per setting, ours and theirs first."""
    of_a_run, freedom = _pooled_variance(values)
    runs = len(values[0]), len(values[1])
    ours, theirs = of_a_run / runs[0], of_a_run / runs[1]
    if not same_runs:
        return SeedNoise(ours, theirs, ours + theirs, freedom, runs, same_runs)
    paired = [a - b for a, b in zip(*values[:2], strict=True)]
    of_a_pair, freedom = _pooled_variance([paired])
    return SeedNoise(ours, theirs, of_a_pair / len(paired), freedom, runs, same_runs)


def _pooled_variance(values: Sequence[Sequence[float]]) -> tuple[float, int]:
    """Variance within groups, and its degrees of freedom (0 if unknown)."""
    several = [group for group in values if len(group) > 1]
    freedom = sum(len(group) - 1 for group in several)
    total = sum((len(group) - 1) * variance(group) for group in several)
    return (total / freedom if freedom else 0.0), freedom


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
