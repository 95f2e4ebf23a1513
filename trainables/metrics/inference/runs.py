"""Runs that are compared, the noise of their seeds, and intervals of differences of means."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean, variance

import numpy as np
from torch import Tensor

from trainables.metrics.inference.clusters import Array, Clusters
from trainables.metrics.inference.selection import Selection, half_width

_LEAST_SAMPLING = 0.02  # share of the variance over samples that is never attributed to seeds


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


def seed_noise(values: Sequence[Sequence[float]], *, same_runs: bool) -> SeedNoise:
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

    ``units`` are what is independent.
    """

    groups: Sequence[Sequence[Tensor]]
    labels: Tensor
    decisions: int
    units: Clusters


Interval = tuple[float, float, float]
"""Both ends, and the variance over samples."""

UNKNOWN: Interval = (-math.inf, math.inf, 0.0)

Ends = Callable[[SeedNoise, Selection], Interval]


def of_means(ours: Array, theirs: Array, units: Clusters, *, same_runs: bool) -> Ends:
    """The interval of the mean of paired differences, from values (runs, N)."""
    if not units.enough:
        return lambda seeds, selection: UNKNOWN
    freedom = units.freedom(ours.mean(axis=0) - theirs.mean(axis=0))
    ours, theirs = units.pseudo_values(ours), units.pseudo_values(theirs)
    paired = ours.mean(axis=0) - theirs.mean(axis=0)
    noise = _network_noise([ours - theirs] if same_runs else [ours, theirs])
    spread, value = float(paired.var(ddof=1)), float(paired.mean())
    sampling = max(spread - noise, _LEAST_SAMPLING * spread) / len(paired)

    def ends(seeds: SeedNoise, selection: Selection) -> Interval:
        widened = selection.widened(np.array(sampling), freedom)
        half = float(half_width(widened, seeds.difference, seeds.freedom, selection))
        return value - half, value + half, sampling

    return ends


def _network_noise(settings: Sequence[Array]) -> float:
    """The part of the variance over samples that is due to differences between networks.

    The variance over seeds already includes it. `settings` are losses (runs, N). A setting with one
    run uses the noise of the others; the result is 0 if each setting has one run.
    """
    of_a_run = [float(runs.var(axis=0, ddof=1).mean()) for runs in settings if len(runs) > 1]
    if not of_a_run:
        return 0.0
    known = iter(of_a_run)
    return sum((next(known) if len(runs) > 1 else fmean(of_a_run)) / len(runs) for runs in settings)
