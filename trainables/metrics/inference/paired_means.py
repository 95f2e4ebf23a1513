"""Intervals of differences of metrics that are means over samples."""

from collections.abc import Callable, Sequence
from statistics import fmean

import numpy as np
from torch import Tensor

from trainables.metrics.inference.clusters import Array, Clusters
from trainables.metrics.inference.runs import UNKNOWN, Ends, Interval, Runs, SeedNoise
from trainables.metrics.inference.selection import Selection, half_width

_LEAST_SAMPLING = 0.02  # share of the variance over samples that is never attributed to seeds


def of_losses(per_sample: Callable[[Tensor, Tensor], Tensor], runs: Runs) -> Ends:
    """The interval for a metric that is the mean of a loss per sample."""
    ours, theirs = (
        np.stack([per_sample(probs, runs.labels).double().cpu().numpy() for probs in group])
        for group in runs.groups[:2]
    )
    return of_means(ours, theirs, runs.units, runs.same)


def of_means(ours: Array, theirs: Array, units: Clusters, same_runs: bool) -> Ends:
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
