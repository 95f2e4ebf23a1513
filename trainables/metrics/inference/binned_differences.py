"""Intervals of differences of binned calibration errors, by test inversion."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array
from torch import Tensor

from trainables.metrics._predictions import NUM_BINS, Binned
from trainables.metrics.inference.clustered_errors import as_independent, drawn_noise
from trainables.metrics.inference.clusters import Array, Clusters
from trainables.metrics.inference.inversion import Cells, fit_curve
from trainables.metrics.inference.runs import UNKNOWN, Ends, Interval, Runs, SeedNoise
from trainables.metrics.inference.selection import Selection, half_width

_DRAWS = 2000
_SCALES = 81
_NUISANCE = 0.1  # share of the allowed error spent on the calibration error of each model

Bin = Callable[[Tensor, Tensor], Binned]
"""Bins probabilities (N, K) and labels (N,)."""


def of_binned_errors(bin_rows: Bin, runs: Runs) -> Ends:
    """Interval of the difference of binned calibration errors, by test inversion.

    Also the variance of the difference over samples, for gaps of the observed size.
    """
    ours, theirs = runs.groups[:2]
    if not runs.units.enough:
        return lambda seeds, selection: UNKNOWN
    gaps, lines, noise, freedom = _gaps_and_noise(runs, bin_rows)
    cut = len(ours) * runs.decisions * NUM_BINS
    a_shown = np.abs(gaps[:cut]).sum() / len(ours)
    b_shown = np.abs(gaps[cut:]).sum() / len(theirs)
    a_expected, a_draws = _draws(lines[:cut], a_shown, noise[:, :cut], len(ours))
    b_expected, b_draws = _draws(lines[cut:], b_shown, noise[:, cut:], len(theirs))
    a_mean, b_mean = a_draws.mean(axis=0), b_draws.mean(axis=0)
    a_var, b_var = a_draws.var(axis=0), b_draws.var(axis=0)
    covariance = (a_draws - a_mean).T @ (b_draws - b_mean) / len(noise)
    sampling = np.maximum(a_var[:, None] + b_var[None, :] - 2 * covariance, 0.0)

    def ends(seeds: SeedNoise, selection: Selection) -> Interval:
        alone, together = selection.share(_NUISANCE), selection.share(1 - 2 * _NUISANCE)
        a_half = half_width(alone.widened(a_var, freedom), seeds.ours, seeds.freedom, alone)
        b_half = half_width(alone.widened(b_var, freedom), seeds.theirs, seeds.freedom, alone)
        widened = together.widened(sampling, freedom)
        off_by = (a_shown - b_shown) - (a_mean[:, None] - b_mean[None, :])
        kept = np.abs(off_by) <= half_width(widened, seeds.difference, seeds.freedom, together)
        kept &= (np.abs(a_shown - a_mean) <= a_half)[:, None]
        kept &= (np.abs(b_shown - b_mean) <= b_half)[None, :]
        expected = a_expected[:, None] - b_expected[None, :]
        as_shown = np.abs(a_shown - a_mean).argmin(), np.abs(b_shown - b_mean).argmin()
        variance_shown = float(sampling[as_shown])
        if not kept.any():  # a handful of samples: the noise is far from normal
            return *UNKNOWN[:2], variance_shown
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


def _gaps_and_noise(runs: Runs, bin_rows: Bin) -> tuple[Array, Array, Array, float]:
    """Weighted gaps of the bins of all runs, their signal part, and draws of their noise.

    The gap of a bin is (confidence - accuracy) times the bin's share of the samples. Gaps and
    signal have shape (runs · bins,), the normal draws (draws, runs · bins). Each decision has
    separate bins, with gaps in proportion to its share of the rows. Also the degrees of freedom of
    the noise.
    """
    units, labels, decisions = runs.units, runs.labels, runs.decisions
    networks = [*runs.groups[0], *runs.groups[1]]
    binned = [
        bin_rows(probs[place::decisions], labels[place::decisions])
        for probs in networks
        for place in range(decisions)
    ]
    num_cells, num_samples = len(binned) * NUM_BINS, len(labels)
    rows = np.concatenate(
        [units.of_row[place::decisions] for _ in networks for place in range(decisions)]
    )
    cells = np.concatenate([each * NUM_BINS + bins for each, (bins, *_) in enumerate(binned)])
    off = np.concatenate([sure - right for _, sure, right in binned])
    covariance = units.covariance(csr_array((off, (rows, cells)), shape=(len(units), num_cells)))
    gaps = np.bincount(cells, off, num_cells) / num_samples
    count = np.bincount(cells, minlength=num_cells).astype(np.float64)
    least = len(units) / num_samples if units.alike else 1.0
    lines = [
        _signal(*each, float(spread.sum()) * decisions**2, least)
        for each, spread in zip(binned, covariance.diagonal().reshape(-1, NUM_BINS), strict=True)
    ]
    mean = np.mean([sure - right for _, sure, right in binned], axis=0)
    of_samples = Clusters(units.of_row[::decisions], units.alike)
    noise = drawn_noise(covariance, count, num_samples, _DRAWS)
    return gaps, np.concatenate(lines) / num_samples, noise, of_samples.freedom(mean)


def _signal(
    bins: npt.NDArray[np.int64], sure: Array, right: Array, variance: float, least: float
) -> Array:
    """Sums of (confidence - accuracy) per bin, reduced to the part that exceeds noise, (bins,).

    If nothing exceeds noise, the observed sums are returned. Dependent rows carry less information:
    they count as the number of independent rows with the same `variance` of all gaps, at least the
    share `least` of them.
    """
    count, confidence, positives = (
        np.asarray(np.bincount(bins, values, NUM_BINS), np.float64)
        for values in (np.ones_like(sure), sure, right)
    )
    sums, filled = confidence - positives, np.flatnonzero(count)
    count = count[filled]
    cells = Cells(count, confidence[filled] / count, positives[filled], np.arange(len(filled)))
    signal = np.zeros_like(sums)
    curve = fit_curve(as_independent(cells, variance, least))
    signal[filled] = count * (cells.confidence - curve)
    return signal if np.abs(signal).sum() > 0 else sums
