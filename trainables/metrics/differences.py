"""Is one setting better than another? Paired over the same samples, and over training seeds."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean, variance
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri, stdtrit  # scipy.stats takes a second and more to import
from torch import Tensor

from trainables.metrics._inputs import check_count, check_level, check_probs
from trainables.metrics._inversion import Cells, fit_curve
from trainables.metrics._predictions import NUM_BINS, bin_top_label
from trainables.metrics.calibration import Binning
from trainables.metrics.proper_scores import log_losses, squared_errors
from trainables.metrics.table import METRICS

Array = npt.NDArray[np.float64]
Verdict = Literal["supported", "not supported", "worse"]

_DRAWS = 2000
_SCALES = 81
_NUISANCE = 0.1  # share of the level that is spent on each model's own calibration error


@dataclass(frozen=True)
class Difference:
    """How much one setting's metric differs from another's.

    Attributes:
        metric: Name of the metric.
        value: Mean of the metric over our runs, less that over theirs.
        low: Lower end of the interval of the difference of the expected metrics.
        high: Upper end.
        verdict: `supported` if all of the interval says that ours is better, `worse` if all of it
            says that it is worse, else `not supported`.
    """

    metric: str
    value: float
    low: float
    high: float
    verdict: Verdict


def difference(
    name: str,
    ours: Sequence[Tensor],
    theirs: Sequence[Tensor],
    labels: Tensor,
    *,
    confidence: float = 0.95,
    candidates: int = 1,
    others: Sequence[Sequence[Tensor]] = (),
    decisions: int = 1,
    cluster_size: int = 1,
) -> Difference:
    """Difference of a metric between two settings, with an interval over samples and seeds.

    What is estimated: the difference of the metric's expected values, over training seeds and on
    endlessly many samples of the same law (of a binned calibration error, in the same bins).

    The samples are shared, so that what is hard for both cancels. Seeds are draws of their own:
    their variance is pooled over all settings, and few of them make the interval wider (Student's
    t with Satterthwaite's degrees of freedom). With one run of every setting the interval is over
    samples alone, of these very networks.

    Means over samples (`nll`, `brier`, `error`, `accuracy`): the mean of paired differences. Binned
    calibration errors (`ece`, `adaptive_ece`) are biased upwards, the more the better the model is
    calibrated, so their plain difference is too small; here the test is inverted: kept are all
    pairs of sizes of the two models' gaps, along a calibration curve fitted to each, that would
    show, with the normal noise of the bins' sums over the shared samples, each model's error and
    their difference as observed.

    Args:
        name: One of `COMPARABLE`.
        ours: Probabilities of each of our runs, (N, K) each.
        theirs: Probabilities of each of their runs, on the same samples.
        labels: True classes, (N,).
        confidence: Level of the interval, in (0, 1).
        candidates: Of how many settings ours is the best: the level is corrected for the choice
            (Bonferroni), as the best of many looks better than it is.
        others: Runs of further settings, which tell more of the variance over seeds.
        decisions: How many rows a sample has, side by side: of several labels, say. The metric is
            then the mean over what they are about, and samples, not rows, are independent.
        cluster_size: How many rows a sample has that are about the same, side by side, as an image
            has pixels: samples, not rows, are then independent.

    Raises:
        TypeError: If probabilities or labels are no tensors of floats and of integers.
        ValueError: If shapes or values are not as above, or the metric's differences are not known
            to be covered.
    """
    if name not in COMPARABLE:
        raise ValueError(f"name must be one of {', '.join(COMPARABLE)}, got {name!r}")
    check_level(confidence)
    check_count("candidates", candidates)
    groups = [[check_probs(p, labels)[0] for p in runs] for runs in (ours, theirs, *others)]
    for what, runs in (("ours", groups[0]), ("theirs", groups[1])):
        if not runs:
            raise ValueError(f"{what} must hold at least one run")
    labels = check_probs(groups[0][0], labels)[1]
    if len(labels) % (decisions * cluster_size):
        raise ValueError(f"{len(labels)} rows are not {decisions * cluster_size} of each sample")
    values = [[_value(name, probs, labels, decisions) for probs in runs] for runs in groups]
    spread, freedom = _over_seeds(values)
    spread *= 1 / len(ours) + 1 / len(theirs)
    level = 1 - (1 - confidence) / candidates
    value = fmean(values[0]) - fmean(values[1])
    low, high = COMPARABLE[name](
        groups[0], groups[1], labels, decisions, cluster_size, spread, freedom, level
    )
    low, high = min(low, value), max(high, value)
    return Difference(name, value, low, high, _verdict(name, low, high))


def _value(name: str, probs: Tensor, labels: Tensor, decisions: int) -> float:
    function = METRICS[name].function
    return fmean(function(probs[k::decisions], labels[k::decisions]) for k in range(decisions))


def _verdict(name: str, low: float, high: float) -> Verdict:
    if METRICS[name].higher_is_better:
        low, high = -high, -low
    return "supported" if high < 0 else "worse" if low > 0 else "not supported"


def _over_seeds(values: Sequence[Sequence[float]]) -> tuple[float, int]:
    """Variance of a run's metric over seeds, pooled, and its degrees of freedom (0 if unknown)."""
    several = [group for group in values if len(group) > 1]
    freedom = sum(len(group) - 1 for group in several)
    total = sum((len(group) - 1) * variance(group) for group in several)
    return (total / freedom if freedom else 0.0), freedom


def _quantile(samples: Array, seeds: float, freedom: int, level: float) -> Array:
    """Two-sided quantile for a sum of variances of which the seeds' is estimated from few runs."""
    if seeds == 0:
        return np.full_like(samples, ndtri(0.5 + level / 2))
    total = samples + seeds
    satterthwaite = freedom * (total / seeds) ** 2
    return np.asarray(stdtrit(satterthwaite, 0.5 + level / 2))


def _of_means(
    per_sample: Callable[[Tensor, Tensor], Tensor],
    ours: Sequence[Tensor],
    theirs: Sequence[Tensor],
    labels: Tensor,
    decisions: int,
    cluster_size: int,
    seeds: float,
    freedom: int,
    level: float,
) -> tuple[float, float]:
    """Interval of the mean of paired differences of a loss per sample."""
    first, second = (
        np.mean([per_sample(p, labels).double().cpu().numpy() for p in runs], axis=0)
        for runs in (ours, theirs)
    )
    together = decisions * cluster_size
    first, second = (rows.reshape(-1, together).mean(axis=1) for rows in (first, second))
    paired = first - second
    if len(paired) < 2:
        return -math.inf, math.inf
    sampling = np.array(paired.var(ddof=1) / len(paired))
    half = _quantile(sampling, seeds, freedom, level) * np.sqrt(sampling + seeds)
    return float(paired.mean() - half), float(paired.mean() + half)


def _of_binned_errors(
    binning: Binning,
    ours: Sequence[Tensor],
    theirs: Sequence[Tensor],
    labels: Tensor,
    decisions: int,
    cluster_size: int,
    seeds: float,
    freedom: int,
    level: float,
) -> tuple[float, float]:
    """Interval of the difference of binned calibration errors, by inverting the test."""
    gaps, lines, noise = _gaps_and_noise([*ours, *theirs], labels, decisions, cluster_size, binning)
    cut = len(ours) * decisions * NUM_BINS
    a_shown = np.abs(gaps[:cut]).sum() / len(ours)
    b_shown = np.abs(gaps[cut:]).sum() / len(theirs)
    a_expected, a_draws = _draws(lines[:cut], a_shown, noise[:, :cut], len(ours))
    b_expected, b_draws = _draws(lines[cut:], b_shown, noise[:, cut:], len(theirs))
    a_mean, b_mean = a_draws.mean(axis=0), b_draws.mean(axis=0)
    a_var, b_var = a_draws.var(axis=0), b_draws.var(axis=0)
    covariance = (a_draws - a_mean).T @ (b_draws - b_mean) / len(noise)
    sampling = np.maximum(a_var[:, None] + b_var[None, :] - 2 * covariance, 0.0)
    # Seeds have a share of their own in each model's error: half of that of the difference.
    alone = 1 - (1 - level) * _NUISANCE
    a_kept = _keeps(a_shown - a_mean, a_var, seeds / 2, freedom, alone)
    b_kept = _keeps(b_shown - b_mean, b_var, seeds / 2, freedom, alone)
    off_by = (a_shown - b_shown) - (a_mean[:, None] - b_mean[None, :])
    together = 1 - (1 - level) * (1 - 2 * _NUISANCE)
    kept = _keeps(off_by, sampling, seeds, freedom, together)
    kept &= a_kept[:, None] & b_kept[None, :]
    expected = a_expected[:, None] - b_expected[None, :]
    if not kept.any():  # the noise is not normal at all, as of a handful of samples
        return -math.inf, math.inf
    return float(expected[kept].min()), float(expected[kept].max())


def _keeps(
    off_by: Array, sampling: Array, seeds: float, freedom: int, level: float
) -> npt.NDArray[np.bool_]:
    half = _quantile(sampling, seeds, freedom, level) * np.sqrt(sampling + seeds)
    return np.asarray(np.abs(off_by) <= half, dtype=np.bool_)


def _draws(line: Array, shown: float, noise: Array, num_runs: int) -> tuple[Array, Array]:
    """For sizes of the gaps along a line: the calibration errors of a setting's runs.

    Those of endlessly many samples, (scales,), and draws of those shown, (draws, scales).
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
    """Of all runs' bins: weighted gaps, and what is signal in them, (runs · bins,) each; noise.

    The gap of a bin is the mean over all samples of confidence less correctness, counted where the
    sample is in the bin: it is confidence less accuracy, times the bin's share of the samples. The
    draws, (draws, runs · bins), are normal. Decisions about different things have bins of their
    own, and gaps of as small a part of the whole.
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
    # A bin in which all predictions are right shows no noise, and has some all the same.
    filled = np.concatenate([np.bincount(bins, minlength=NUM_BINS) for bins, *_ in binned])
    wrong = 1 / (filled + 2)  # Laplace's share of wrong predictions in it
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
    """Sums of (confidence - accuracy) per bin as far as the data tell them from noise, (bins,).

    As observed where nothing can be told from noise. Rows that hang together tell less: as many as
    would vary as much, `variance` in all bins, if each were on its own.
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


def _wrong(probs: Tensor, labels: Tensor) -> Tensor:
    return (probs.argmax(dim=1) != labels).double()


def _right(probs: Tensor, labels: Tensor) -> Tensor:
    return (probs.argmax(dim=1) == labels).double()


_Method = Callable[
    [Sequence[Tensor], Sequence[Tensor], Tensor, int, int, float, int, float], tuple[float, float]
]


def _means(per_sample: Callable[[Tensor, Tensor], Tensor]) -> _Method:
    return lambda *arguments: _of_means(per_sample, *arguments)


def _binned(binning: Binning) -> _Method:
    return lambda *arguments: _of_binned_errors(binning, *arguments)


COMPARABLE: dict[str, _Method] = {
    "ece": _binned("equal_width"),
    "adaptive_ece": _binned("equal_mass"),
    "nll": _means(log_losses),
    "brier": _means(squared_errors),
    "error": _means(_wrong),
    "accuracy": _means(_right),
}
"""Metrics whose differences have an interval that covers, with the way to it."""
