"""Paired comparison of two settings: differences of metrics over samples and training seeds."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from statistics import fmean
from typing import Any, Literal

import numpy as np
from scipy.special import stdtr
from torch import Tensor

from trainables.metrics._inputs import check_probs
from trainables.metrics._predictions import bin_event, bin_top_label
from trainables.metrics._ranked import top_label
from trainables.metrics.inference.binned_differences import Bin, of_binned_errors
from trainables.metrics.inference.clusters import Clusters
from trainables.metrics.inference.runs import (
    Ends,
    Runs,
    SeedNoise,
    of_means,
    seed_noise,
)
from trainables.metrics.inference.selection import ONE_LOOK, Design
from trainables.metrics.proper_scores import (
    log_losses,
    probability_floor,
    squared_errors,
)
from trainables.metrics.table import METRICS, chosen_metrics
from trainables.plugins.arguments import check_choice

Verdict = Literal["supported", "not supported", "worse"]


@dataclass(frozen=True)
class Difference:
    """Difference of a metric between two settings, ours minus theirs.

    Attributes:
        metric: Name of the metric.
        value: Mean of the metric over our runs minus the mean over theirs.
        low: Lower end of the interval for the difference of the expected metrics.
        high: Upper end of that interval.
        verdict: `supported` if ours is better on the whole interval, `worse` if it is worse on the
            whole interval, else `not supported`.
        sampling: Variance of the value by its samples.
        seeds: Estimated variance of the value by the training seeds; 0 where it is unknown.
        freedom: Degrees of freedom of that estimate.
        with_noise: Computes the interval of the same value for another variance by seeds, and for
            another selection; None if unknown.
        noise: The variance over seeds of the means of both settings.
        clusters: Number of clusters; None if samples are independent. With fewer than 10, the
            interval is infinite.
    """

    metric: str
    value: float
    low: float
    high: float
    verdict: Verdict
    sampling: float = 0.0
    seeds: float = 0.0
    freedom: int = 0
    with_noise: Ends | None = field(default=None, repr=False, compare=False)
    noise: SeedNoise | None = field(default=None, repr=False, compare=False)
    clusters: int | None = None


def difference(
    name: str,
    ours: Sequence[Tensor],
    theirs: Sequence[Tensor],
    labels: Tensor,
    design: Design = ONE_LOOK,
    *,
    others: Sequence[Sequence[Tensor]] = (),
    **changes: Any,
) -> Difference:
    """Difference of a metric between two settings, with an interval over samples and seeds.

    The interval is for the difference of the metric's expected values over training seeds, on
    infinitely many samples of the same distribution (for a binned calibration error, in the same
    bins). With one run per setting, it covers samples only, for these particular networks.

    Both settings are evaluated on the same samples, so noise that they share cancels. Training
    seeds are independent: their variance is pooled over all settings, and with few runs Student's t
    widens the interval. The best of many settings looks better than it is, so the half-width uses
    sampling noise as for the best of `candidates`, and seed noise as for the best of `finalists`.
    `docs/intervals.md` has the inequality, its proof and simulations.

    For means over samples (`nll`, `brier`, `error`, `accuracy`), the interval is that of the mean
    of paired differences. Binned calibration errors (`ece`, `adaptive_ece`, `event_ece`) are biased
    upwards, so the test is inverted: the interval contains all pairs of sizes of the two models'
    gaps, along fitted calibration curves, for which both errors and their difference are plausible.

    Args:
        name: One of `COMPARABLE`.
        ours: Probabilities of each of our runs, (N, K) floats each.
        theirs: The same for each of their runs, on the same samples.
        labels: True classes, (N,) integers.
        design: What is independent, and how ours was selected.
        others: Runs of other settings that help to estimate the variance over seeds. They must not
            contain runs of `ours` or `theirs`, which would count twice.
        **changes: Attributes of the design, such as `candidates=20`.

    Raises:
        TypeError: If probabilities or labels are not tensors of floats and of integers.
        ValueError: If shapes or values are not as above, or no valid interval is known for
            differences of this metric.
    """
    check_choice("name", name, COMPARABLE)
    design = replace(design, **changes)
    groups = [[check_probs(p, labels)[0] for p in runs] for runs in (ours, theirs, *others)]
    _check_runs(groups, design)
    labels = check_probs(groups[0][0], labels)[1]
    chosen_metrics([name], groups[0][0].shape[1])
    if name in _LOSSES:
        ours, theirs, *others = _losses(name, groups, labels)
        return mean_difference(name, ours, theirs, design, others=others)
    units = design.units(len(labels))
    values = [[_value(name, probs, labels, design.decisions) for probs in runs] for runs in groups]
    runs = Runs(groups, labels, design.decisions, units)
    found = _found(name, values, of_binned_errors(_BINS[name], runs), units, design)
    low, high = min(found.low, found.value), max(found.high, found.value)
    return replace(found, low=low, high=high, verdict=_verdict(name, low, high))


def _losses(name: str, groups: Sequence[Sequence[Tensor]], labels: Tensor) -> list[list[Tensor]]:
    """Values per sample; of log losses, with one floor for a probability of 0 of the label.

    A run whose probabilities are rounded would otherwise have the lowest loss for a wrong
    prediction.
    """
    found = [[_LOSSES[name](probs, labels) for probs in runs] for runs in groups]
    if name != "nll":
        return found
    floors = [
        probability_floor(probs)
        for runs in groups
        for probs in runs
        if bool((probs.gather(1, labels[:, None]) <= 0).any())
    ]
    most = -math.log(max(floors)) if floors else math.inf
    return [[each.clamp(max=most) for each in runs] for runs in found]


def mean_difference(
    name: str,
    ours: Sequence[Tensor],
    theirs: Sequence[Tensor],
    design: Design = ONE_LOOK,
    *,
    others: Sequence[Sequence[Tensor]] = (),
    **changes: Any,
) -> Difference:
    """Difference of a metric that is a mean over samples, where lower is better.

    It takes the values of each run per row, (N,) floats. For the other arguments see `difference`.

    Raises:
        ValueError: If the numbers of rows differ.
    """
    design = replace(design, **changes)
    groups = [
        [values.double().cpu().numpy() for values in runs] for runs in (ours, theirs, *others)
    ]
    _check_runs(groups, design)
    counts = {values.shape for runs in groups for values in runs}
    if len(counts) > 1:
        raise ValueError(f"all runs must have values of the same samples, got shapes {counts}")
    units = design.units(len(groups[0][0]))
    means = [[float(values.mean()) for values in runs] for runs in groups]
    ends = of_means(np.stack(groups[0]), np.stack(groups[1]), units, same_runs=design.same_runs)
    return _found(name, means, ends, units, design)


def chance_of_support(
    found: Difference, runs: int, design: Design = ONE_LOOK, **changes: Any
) -> float:
    """The probability that a difference would be supported if both settings had this many runs.

    It is predicted from the observed difference: on the same samples, the value with more runs
    differs from the current one only by seed noise. The interval is computed again with the
    variance over seeds at the larger number of runs.

    Args:
        found: Result of `difference` or `mean_difference` for a metric where lower is better.
        runs: Number of runs of each setting to predict for, at least the present ones.
        design: The selection then, and the level of the interval with these runs.
        **changes: Attributes of the design, see `difference`.
    """
    if not math.isfinite(found.high) or found.noise is None or found.with_noise is None:
        return float("nan")
    if found.noise.freedom == 0:
        return float("nan")
    then = found.noise.with_runs(runs)
    selection = replace(design, **changes).selection
    _, lacking, _ = found.with_noise(then, selection)  # required decrease of the value
    if (change := found.noise.difference - then.difference) <= 0:
        return float(lacking < 0)
    return float(stdtr(found.freedom, -lacking / math.sqrt(change)))


def _check_runs(groups: Sequence[Sequence[Any]], design: Design) -> None:
    ours, theirs = groups[:2]
    for what, runs in (("ours", ours), ("theirs", theirs)):
        if not runs:
            raise ValueError(f"{what} must hold at least one run")
    if design.same_runs and len(ours) != len(theirs):
        raise ValueError(
            f"ours and theirs must be the same runs, got {len(ours)} and {len(theirs)} of them"
        )


def _found(
    name: str, values: Sequence[Sequence[float]], ends: Ends, units: Clusters, design: Design
) -> Difference:
    """From the metric of each run, per setting, where lower is better."""
    seeds = seed_noise(values, same_runs=design.same_runs)
    low, high, sampling = ends(seeds, design.selection)
    return Difference(
        name,
        fmean(values[0]) - fmean(values[1]),
        low,
        high,
        _verdict(name, low, high),
        sampling,
        seeds.difference,
        seeds.freedom,
        ends,
        seeds,
        len(units) if units.alike else None,
    )


def _value(name: str, probs: Tensor, labels: Tensor, decisions: int) -> float:
    function = METRICS[name].function
    return fmean(function(probs[k::decisions], labels[k::decisions]) for k in range(decisions))


def _verdict(name: str, low: float, high: float) -> Verdict:
    if name in METRICS and METRICS[name].higher_is_better:
        low, high = -high, -low
    return "supported" if high < 0 else "worse" if low > 0 else "not supported"


_BINS: dict[str, Bin] = {
    "ece": partial(bin_top_label, "equal_width"),
    "adaptive_ece": partial(bin_top_label, "equal_mass"),
    "event_ece": bin_event,
}
_LOSSES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "nll": log_losses,
    "brier": squared_errors,
    "error": lambda probs, labels: ~top_label(probs, labels)[1],
    "accuracy": lambda probs, labels: top_label(probs, labels)[1],
}
COMPARABLE = (*_BINS, *_LOSSES)
"""Metrics with a valid interval for differences."""
