"""Calibration errors that a perfectly calibrated model would show, as a reference."""

import math

import numpy as np
import torch
from torch import Tensor

from trainables.metrics._inputs import check_level, check_probs
from trainables.metrics._predictions import NUM_BINS
from trainables.metrics._ranked import Binning, top_label
from trainables.metrics.inference.classwise import classwise_moments
from trainables.metrics.inference.clustered_errors import clustered_noise
from trainables.metrics.inference.clusters import Clusters, clusters_of
from trainables.metrics.inference.intervals import OF_GAPS, TWO_CLASSES
from trainables.metrics.inference.inversion import Array, Cells, ErrorOfGaps
from trainables.metrics.inference.sampled_errors import DrawnErrors
from trainables.metrics.inference.top_label_gaps import (
    arrays_of,
    even_cells,
    fixed_widths,
)
from trainables.metrics.table import chosen_metrics
from trainables.plugins.arguments import check_choice

_NUM_DRAWS = 1000
_NUM_SMOOTH_DRAWS = 200
_SMOOTH_CELLS = 512


def calibrated_reference(
    name: str,
    probs: Tensor,
    confidence: float = 0.95,
    seed: int = 0,
    labels: Tensor | None = None,
    clusters: Tensor | None = None,
) -> tuple[float, float, float]:
    """Calibration error that a perfectly calibrated model with these probabilities would show.

    The labels are drawn from the probabilities. With few samples, the error is then far from 0, and
    an observed error inside the range is no evidence of miscalibration. Numbers of correct
    predictions are drawn per bin, not per sample. The class-wise errors of more than two classes
    have a closed form: exact means of binomial counts and a normal sum.

    Args:
        name: One of `REFERENCED_METRICS`, the calibration errors.
        probs: Probabilities, (N, K).
        confidence: Share of the draws between the two ends, in (0, 1).
        seed: Seed of the draws.
        labels: True classes, (N,), required if samples come in clusters: they show how strongly
            the errors of a cluster are correlated.
        clusters: See `interval`. With clusters, the result is nan for class-wise errors of more
            than two classes.

    Returns:
        The mean, and the lower and upper end of the range that contains the share `confidence`.
    """
    check_choice("metric with a reference", name, REFERENCED_METRICS)
    check_level(confidence)
    if clusters is not None and labels is None:
        raise ValueError("clusters: labels are needed to estimate the dependence of errors")
    given = labels
    if given is None:
        given = torch.zeros(len(probs), dtype=torch.int64, device=probs.device)
    probs, given = check_probs(probs, given)
    chosen_metrics([name], probs.shape[1])
    grouped = clusters_of(clusters, len(probs))
    tails = (1 - confidence) / 2, (1 + confidence) / 2
    binning = _CLASSWISE.get(name)
    if grouped is not None and (not grouped.enough or (binning and probs.shape[1] > 2)):
        return math.nan, math.nan, math.nan
    if binning is not None and probs.shape[1] > 2:
        mean, deviation = classwise_moments(probs, NUM_BINS, binning)
        low, high = (mean + deviation * float(torch.special.ndtri(torch.tensor(t))) for t in tails)
        return mean, max(0.0, low), high
    if binning is not None:
        top, name = (probs[:, 1].contiguous(), given == 1), TWO_CLASSES[name]
    else:
        top = top_label(probs, given)
    drawn = _drawn_errors(name, *top, seed, grouped)
    low, high = np.quantile(drawn, tails)
    return float(drawn.mean()), float(low), float(high)


def _drawn_errors(
    name: str, confidence: Tensor, correct: Tensor, seed: int, clusters: Clusters | None
) -> Array:
    """The errors (R,) of draws of a calibrated model with these confidences (N,).

    Of ``correct`` (N,) only the dependence within clusters matters.
    """

    def gaps_of(cells: Cells, num_draws: int = _NUM_DRAWS) -> Array:
        if clusters is not None:
            return clustered_noise(cells, confidence, correct, clusters)[1][:num_draws]
        return DrawnErrors(cells, ErrorOfGaps.of_sum(np.abs), seed, num_draws).draw_without_gaps()

    if name == "smooth_ece":
        cells, place = even_cells(*arrays_of(confidence, correct), _SMOOTH_CELLS)
        return fixed_widths(gaps_of(cells, _NUM_SMOOTH_DRAWS), place, _SMOOTH_CELLS)
    cells, error = OF_GAPS["ece" if name == "mce" else name](confidence, correct)
    gaps = gaps_of(cells)
    if name == "mce":
        return np.asarray(np.abs(gaps * cells.num_samples / cells.count).max(axis=1))
    found = error.statistic(gaps)
    return np.sqrt(np.maximum(found, 0)) if name == "debiased_ece" else found


_CLASSWISE: dict[str, Binning] = {
    "classwise_ece": "equal_width",
    "classwise_adaptive_ece": "equal_mass",
    "event_ece": "equal_mass",
}
REFERENCED_METRICS = (
    *("ece", "adaptive_ece", "mce", "smooth_ece", "kde_ece", "debiased_ece"),
    *_CLASSWISE,
)
"""The metrics that have a calibrated reference: the calibration errors."""
