"""Paired comparison of two settings: differences of metrics over samples and training seeds."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from statistics import fmean, variance
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy.special import stdtr
from torch import Tensor

from trainables.metrics._inputs import check_count, check_level, check_probs
from trainables.metrics._inversion import Cells, fit_curve
from trainables.metrics._predictions import NUM_BINS, bin_top_label
from trainables.metrics._selection import Selection, half_width
from trainables.metrics.calibration import Binning
from trainables.metrics.proper_scores import log_losses, rights, squared_errors, wrongs
from trainables.metrics.table import METRICS

Array = npt.NDArray[np.float64]
Verdict = Literal["supported", "not supported", "worse"]

_Interval = tuple[float, float, float]  # its ends, and the variance by the samples

_DRAWS = 2000
_SCALES = 81
_NUISANCE = 0.1  # share of the allowed error spent on the calibration error of each model
_LEAST_SAMPLING = 0.02  # share of the variance over samples that is never attributed to seeds


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
    """

    metric: str
    value: float
    low: float
    high: float
    verdict: Verdict
    sampling: float = 0.0
    seeds: float = 0.0
    freedom: int = 0
    with_noise: "Callable[[_SeedNoise, Selection], _Interval] | None" = field(
        default=None, repr=False, compare=False
    )
    noise: "_SeedNoise | None" = field(default=None, repr=False, compare=False)


def difference(
    name: str,
    ours: Sequence[Tensor],
    theirs: Sequence[Tensor],
    labels: Tensor,
    *,
    confidence: float = 0.95,
    candidates: int = 1,
    finalists: int | None = None,
    fresh_samples: bool = False,
    others: Sequence[Sequence[Tensor]] = (),
    same_runs: bool = False,
    decisions: int = 1,
    cluster_size: int = 1,
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
    of paired differences. Binned calibration errors (`ece`, `adaptive_ece`) are biased upwards, so
    the test is inverted: the interval contains all pairs of sizes of the two models' gaps, along
    fitted calibration curves, for which both errors and their difference are plausible.

    Args:
        name: One of `COMPARABLE`.
        ours: Probabilities of each of our runs, (N, K) floats each.
        theirs: The same for each of their runs, on the same samples.
        labels: True classes, (N,) integers.
        confidence: Level of the interval, in (0, 1).
        candidates: Number of settings from which ours was selected by results on these samples.
        finalists: Number of settings trained again with fresh seeds, from which ours was selected
            as the best. None if there were no fresh seeds: the runs are those of the search.
        fresh_samples: Whether these samples were not used for selection, like a test split.
            `candidates` is then ignored, since only the runs were selected, on other samples.
        others: Runs of other settings that help to estimate the variance over seeds. They must not
            contain runs of `ours` or `theirs`, which would count twice.
        same_runs: Whether `ours` and `theirs` are the same networks in the same order, for example
            with and without temperature scaling. The variance over seeds is then that of their
            paired differences.
        decisions: Number of consecutive rows per sample that are different decisions, as in
            multi-label data. The metric is then the mean over the decisions, and samples, not rows,
            are independent.
        cluster_size: Number of consecutive rows per sample that are similar, such as the pixels of
            an image. Samples, not rows, are then independent.

    Raises:
        TypeError: If probabilities or labels are not tensors of floats and of integers.
        ValueError: If shapes or values are not as above, or no valid interval is known for
            differences of this metric.
    """
    if name not in COMPARABLE:
        raise ValueError(f"name must be one of {', '.join(COMPARABLE)}, got {name!r}")
    check_level(confidence)
    check_count("candidates", candidates)
    finalists = candidates if finalists is None else finalists
    check_count("finalists", finalists)
    if finalists > candidates:
        raise ValueError(f"finalists must be at most candidates = {candidates}, got {finalists}")
    groups = [[check_probs(p, labels)[0] for p in runs] for runs in (ours, theirs, *others)]
    for what, runs in (("ours", groups[0]), ("theirs", groups[1])):
        if not runs:
            raise ValueError(f"{what} must hold at least one run")
    if same_runs and len(ours) != len(theirs):
        raise ValueError(
            f"ours and theirs must be the same runs, got {len(ours)} and {len(theirs)} of them"
        )
    labels = check_probs(groups[0][0], labels)[1]
    if len(labels) % (decisions * cluster_size):
        raise ValueError(f"{len(labels)} rows are not {decisions * cluster_size} of each sample")
    values = [[_value(name, probs, labels, decisions) for probs in runs] for runs in groups]
    selection = Selection(1 - confidence, candidates, finalists, fresh_samples)
    seeds = _seed_noise(values, same_runs)
    ends = COMPARABLE[name](_Runs(groups, labels, decisions, cluster_size, same_runs))
    low, high, sampling = ends(seeds, selection)
    value = fmean(values[0]) - fmean(values[1])
    low, high = min(low, value), max(high, value)
    found = _verdict(name, low, high)
    noise = seeds.difference, seeds.freedom
    return Difference(name, value, low, high, found, sampling, *noise, ends, seeds)


def mean_difference(
    name: str,
    ours: Sequence[Tensor],
    theirs: Sequence[Tensor],
    *,
    confidence: float = 0.95,
    candidates: int = 1,
    finalists: int | None = None,
    fresh_samples: bool = False,
    others: Sequence[Sequence[Tensor]] = (),
    same_runs: bool = False,
    rows_per_sample: int = 1,
) -> Difference:
    """Difference of a metric that is a mean over samples, where lower is better.

    It takes the values of each run per sample, (N,) floats. `rows_per_sample` consecutive rows
    belong to one sample; samples, not rows, are independent. For the other arguments see
    `difference`.

    Raises:
        ValueError: If the numbers of rows differ.
    """
    groups = [
        [values.double().cpu().numpy() for values in runs] for runs in (ours, theirs, *others)
    ]
    counts = {values.shape for runs in groups for values in runs}
    if len(counts) > 1:
        raise ValueError(f"all runs must have values of the same samples, got shapes {counts}")
    samples = [np.stack(runs).reshape(len(runs), -1, rows_per_sample).mean(2) for runs in groups]
    means = [runs.mean(axis=1).tolist() for runs in samples]
    seeds = _seed_noise(means, same_runs)
    ends = partial(_of_means, samples[0], samples[1], same_runs)
    low, high, sampling = ends(
        seeds, Selection(1 - confidence, candidates, finalists or candidates, fresh_samples)
    )
    value = fmean(means[0]) - fmean(means[1])
    verdict: Verdict = "supported" if high < 0 else "worse" if low > 0 else "not supported"
    noise = seeds.difference, seeds.freedom
    return Difference(name, value, low, high, verdict, sampling, *noise, ends, seeds)


def chance_of_support(
    found: Difference,
    runs: int,
    *,
    confidence: float = 0.95,
    candidates: int = 1,
    finalists: int | None = None,
) -> float:
    """The probability that a difference would be supported if both settings had this many runs.

    It is predicted from the observed difference: on the same samples, the value with more runs
    differs from the current one only by seed noise. The interval is computed again with the
    variance over seeds at the larger number of runs.

    Args:
        found: Result of `difference` or `mean_difference` for a metric where lower is better.
        runs: Number of runs of each setting to predict for, at least the present ones.
        confidence: Level of the interval with these runs.
        candidates: See `difference`.
        finalists: See `difference`.
    """
    if not math.isfinite(found.high) or found.noise is None or found.with_noise is None:
        return float("nan")
    if found.noise.freedom == 0:
        return float("nan")
    then = found.noise.with_runs(runs)
    selection = Selection(1 - confidence, candidates, finalists or candidates)
    _, lacking, _ = found.with_noise(then, selection)  # required decrease of the value
    change = found.noise.difference - then.difference
    if change <= 0:
        return float(lacking < 0)
    return float(stdtr(found.freedom, -lacking / math.sqrt(change)))


@dataclass(frozen=True)
class _Runs:
    """Probabilities (N, K) of all runs per setting, ours and theirs first, and labels (N,)."""

    groups: Sequence[Sequence[Tensor]]
    labels: Tensor
    decisions: int
    cluster_size: int
    same: bool


@dataclass(frozen=True)
class _SeedNoise:
    """Variance over seeds of the mean of our runs, the mean of theirs and their difference.

    `runs` are their numbers; `same` says whether they are the same networks.
    """

    ours: float
    theirs: float
    difference: float
    freedom: int
    runs: tuple[int, int]
    same: bool

    def with_runs(self, count: int) -> "_SeedNoise":
        """The same with this many runs of both, or the present number if that is larger."""
        more = max(count, self.runs[0]), max(count, self.runs[1])
        ours, theirs = self.ours * self.runs[0] / more[0], self.theirs * self.runs[1] / more[1]
        both = self.difference * self.runs[0] / more[0] if self.same else ours + theirs
        added = more[0] - self.runs[0] + (0 if self.same else more[1] - self.runs[1])
        return _SeedNoise(ours, theirs, both, self.freedom + added, more, self.same)


_Ends = Callable[[_SeedNoise, Selection], _Interval]
_Method = Callable[[_Runs], _Ends]


def _value(name: str, probs: Tensor, labels: Tensor, decisions: int) -> float:
    function = METRICS[name].function
    return fmean(function(probs[k::decisions], labels[k::decisions]) for k in range(decisions))


def _verdict(name: str, low: float, high: float) -> Verdict:
    if METRICS[name].higher_is_better:
        low, high = -high, -low
    return "supported" if high < 0 else "worse" if low > 0 else "not supported"


def _seed_noise(values: Sequence[Sequence[float]], same_runs: bool) -> _SeedNoise:
    """Estimated from the metric of each run, per setting, ours and theirs first."""
    of_a_run, freedom = _pooled_variance(values)
    runs = len(values[0]), len(values[1])
    ours, theirs = of_a_run / runs[0], of_a_run / runs[1]
    if not same_runs:
        return _SeedNoise(ours, theirs, ours + theirs, freedom, runs, same_runs)
    paired = [a - b for a, b in zip(*values[:2], strict=True)]
    of_a_pair, freedom = _pooled_variance([paired])
    return _SeedNoise(ours, theirs, of_a_pair / len(paired), freedom, runs, same_runs)


def _pooled_variance(values: Sequence[Sequence[float]]) -> tuple[float, int]:
    """Variance within groups, and its degrees of freedom (0 if unknown)."""
    several = [group for group in values if len(group) > 1]
    freedom = sum(len(group) - 1 for group in several)
    total = sum((len(group) - 1) * variance(group) for group in several)
    return (total / freedom if freedom else 0.0), freedom


def _of_means(
    ours: Array, theirs: Array, same_runs: bool, seeds: _SeedNoise, selection: Selection
) -> _Interval:
    """Interval of the mean of paired differences, and its variance over samples.

    From values (runs, N).
    """
    paired = ours.mean(axis=0) - theirs.mean(axis=0)
    if len(paired) < 2:
        return -math.inf, math.inf, 0.0
    noise = _network_noise([ours - theirs] if same_runs else [ours, theirs])
    spread = float(paired.var(ddof=1))
    sampling = max(spread - noise, _LEAST_SAMPLING * spread) / len(paired)
    half = float(half_width(np.array(sampling), seeds.difference, seeds.freedom, selection))
    return float(paired.mean() - half), float(paired.mean() + half), sampling


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


def _of_binned_errors(binning: Binning, runs: _Runs) -> _Ends:
    """Interval of the difference of binned calibration errors, by test inversion.

    Also the variance of the difference over samples, for gaps of the observed size.
    """
    ours, theirs = runs.groups[:2]
    gaps, lines, noise = _gaps_and_noise(
        [*ours, *theirs], runs.labels, runs.decisions, runs.cluster_size, binning
    )
    cut = len(ours) * runs.decisions * NUM_BINS
    a_shown = np.abs(gaps[:cut]).sum() / len(ours)
    b_shown = np.abs(gaps[cut:]).sum() / len(theirs)
    a_expected, a_draws = _draws(lines[:cut], a_shown, noise[:, :cut], len(ours))
    b_expected, b_draws = _draws(lines[cut:], b_shown, noise[:, cut:], len(theirs))
    a_mean, b_mean = a_draws.mean(axis=0), b_draws.mean(axis=0)
    a_var, b_var = a_draws.var(axis=0), b_draws.var(axis=0)
    covariance = (a_draws - a_mean).T @ (b_draws - b_mean) / len(noise)
    sampling = np.maximum(a_var[:, None] + b_var[None, :] - 2 * covariance, 0.0)

    def ends(seeds: _SeedNoise, selection: Selection) -> _Interval:
        alone, together = selection.share(_NUISANCE), selection.share(1 - 2 * _NUISANCE)
        a_half = half_width(a_var, seeds.ours, seeds.freedom, alone)
        b_half = half_width(b_var, seeds.theirs, seeds.freedom, alone)
        off_by = (a_shown - b_shown) - (a_mean[:, None] - b_mean[None, :])
        kept = np.abs(off_by) <= half_width(sampling, seeds.difference, seeds.freedom, together)
        kept &= (np.abs(a_shown - a_mean) <= a_half)[:, None]
        kept &= (np.abs(b_shown - b_mean) <= b_half)[None, :]
        expected = a_expected[:, None] - b_expected[None, :]
        as_shown = np.abs(a_shown - a_mean).argmin(), np.abs(b_shown - b_mean).argmin()
        variance_shown = float(sampling[as_shown])
        if not kept.any():  # a handful of samples: the noise is far from normal
            return -math.inf, math.inf, variance_shown
        return float(expected[kept].min()), float(expected[kept].max()), variance_shown

    return ends


def _draws(line: Array, shown: float, noise: Array, num_runs: int) -> tuple[Array, Array]:
    """Mean calibration error of a setting's runs, for a range of sizes of the true gaps.

    The errors on infinitely many samples (scales,), and draws of observed errors (draws, scales).
    """
    spread = float((np.abs(noise).sum(axis=1) / num_runs).mean())
    expected = np.linspace(0, shown + 4 * spread, _SCALES)
    length = np.abs(line).sum() / num_runs
    scales = expected / length if length > 0 else np.zeros_like(expected)
    errors = [np.abs(scale * line + noise).sum(axis=1) / num_runs for scale in scales]
    return expected, np.stack(errors, axis=1)


def _gaps_and_noise(
    runs: Sequence[Tensor], labels: Tensor, decisions: int, cluster_size: int, binning: Binning
) -> tuple[Array, Array, Array]:
    """Weighted gaps of the bins of all runs, their signal part, and draws of their noise.

    The gap of a bin is (confidence - accuracy) times the bin's share of the samples. Gaps and
    signal have shape (runs · bins,), the normal draws (draws, runs · bins). Each decision has
    separate bins, with gaps in proportion to its share of the rows.
    """
    binned = [
        bin_top_label(probs[place::decisions], labels[place::decisions], binning)
        for probs in runs
        for place in range(decisions)
    ]
    rows = np.arange(len(labels) // decisions) // cluster_size
    share = decisions * cluster_size
    sums = np.zeros((len(labels) // share, len(binned) * NUM_BINS))
    for each, (bins, sure, right) in enumerate(binned):
        np.add.at(sums, (rows, each * NUM_BINS + bins), (sure - right) / share)
    gaps = sums.mean(axis=0)
    centred = sums - gaps
    covariance = centred.T @ centred / len(sums) ** 2
    lines = np.concatenate(
        [
            _signal(*each, spread.sum() * len(sums) ** 2 * share**2)
            for each, spread in zip(
                binned, covariance.diagonal().reshape(-1, NUM_BINS), strict=True
            )
        ]
    )
    # A bin whose predictions are all correct shows no noise, although it has some.
    filled = np.concatenate([np.bincount(bins, minlength=NUM_BINS) for bins, *_ in binned])
    wrong = 1 / (filled + 2)  # error rate of such a bin by Laplace's rule
    diagonal = np.diag_indices_from(covariance)
    least = filled * wrong * (1 - wrong) / len(labels) ** 2
    covariance[diagonal] = np.maximum(covariance[diagonal], least)
    values, vectors = np.linalg.eigh(covariance)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    draws = np.random.default_rng(0).standard_normal((_DRAWS, len(covariance)))
    return gaps, lines / len(labels), np.asarray(draws @ root.T)


def _signal(
    bins: npt.NDArray[np.int64], sure: Array, right: Array, variance: float
) -> npt.NDArray[np.float64]:
    """Sums of (confidence - accuracy) per bin, reduced to the part that exceeds noise, (bins,).

    If nothing exceeds noise, the observed sums are returned. Dependent rows carry less information:
    they count as the number of independent rows with the same total `variance`.
    """
    count, confidence, positives = (
        np.asarray(np.bincount(bins, values, NUM_BINS), np.float64)
        for values in (np.ones_like(sure), sure, right)
    )
    sums = confidence - positives
    alone = float(((sure - right) ** 2).sum() - (sums**2).sum() / len(bins))
    together = max(1.0, variance / alone) if alone > 0 else 1.0
    filled = np.flatnonzero(count)
    cells = Cells(
        count[filled] / together,
        confidence[filled] / count[filled],
        positives[filled] / together,
        np.arange(len(filled)),
    )
    signal = np.zeros_like(sums)
    signal[filled] = count[filled] * (cells.confidence - fit_curve(cells))
    return signal if np.abs(signal).sum() > 0 else sums


def _means(per_sample: Callable[[Tensor, Tensor], Tensor]) -> _Method:
    """The method for a metric that is the mean of a loss per sample."""

    def method(runs: _Runs) -> _Ends:
        def losses(group: Sequence[Tensor]) -> Array:
            """Loss of each run for each sample, (runs, N)."""
            rows = [per_sample(probs, runs.labels).double().cpu().numpy() for probs in group]
            together = runs.decisions * runs.cluster_size
            return np.asarray(np.stack(rows).reshape(len(rows), -1, together).mean(axis=2))

        ours, theirs = losses(runs.groups[0]), losses(runs.groups[1])
        return partial(_of_means, ours, theirs, runs.same)

    return method


COMPARABLE: dict[str, _Method] = {
    "ece": partial(_of_binned_errors, "equal_width"),
    "adaptive_ece": partial(_of_binned_errors, "equal_mass"),
    "nll": _means(log_losses),
    "brier": _means(squared_errors),
    "error": _means(wrongs),
    "accuracy": _means(rights),
}
"""Metrics with a valid interval for differences, and the method for it."""
