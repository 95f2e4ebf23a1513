"""Calibration errors that a perfectly calibrated model would show, as a reference."""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from trainables.metrics._classwise import classwise_moments
from trainables.metrics._clustered import clustered_reference
from trainables.metrics._inputs import check_clusters, check_level, check_probs
from trainables.metrics._inversion import Array, Cells, ErrorOfGaps
from trainables.metrics._predictions import NUM_BINS
from trainables.metrics._ranked import equal_width_boundaries, rank_top_label
from trainables.metrics._sampled_errors import DrawnErrors
from trainables.metrics._top_label import top_label
from trainables.metrics._top_label_gaps import cells_of_bins, even_cells, fixed_widths
from trainables.metrics.calibration import Binning
from trainables.metrics.intervals import OF_GAPS, two_classes
from trainables.plugins.arguments import did_you_mean

_NUM_DRAWS = 1000
_NUM_SMOOTH_DRAWS = 200
_SMOOTH_CELLS = 512

Values = Callable[[Tensor, Tensor], Array]


def calibrated_reference(
    name: str,
    probs: Tensor,
    confidence: float = 0.95,
    seed: int = 0,
    labels: Tensor | None = None,
    cluster_size: int = 1,
) -> tuple[float, float, float]:
    """Calibration error that a perfectly calibrated model with these probabilities would show.

    The labels are drawn from the probabilities. With few samples, the error is then far from 0, and
    an observed error inside the range is no evidence of miscalibration. Numbers of correct
    predictions are drawn per bin, not per sample. The class-wise errors of more than two classes
    have a closed form: exact means of binomial counts and a normal sum.

    Args:
        name: One of `REFERENCED_METRICS`, the calibration errors.
        probs: Probabilities, shape (N, K), rows sum to one.
        confidence: Share of the draws between the two ends, in (0, 1).
        seed: Seed of the draws.
        labels: True classes, shape (N,), required if samples come in clusters: they show how
            strongly the errors of a cluster are correlated.
        cluster_size: See `interval`. With clusters, the result is nan unless the metric is one of
            `CLUSTERED_METRICS`.

    Returns:
        The mean, and the lower and upper end of the range that contains the share `confidence`.
    """
    if name not in REFERENCED_METRICS:
        raise ValueError(
            f"{name!r} has no calibrated reference{did_you_mean(name, REFERENCED_METRICS)};"
            f" allowed: {', '.join(REFERENCED_METRICS)}"
        )
    check_level(confidence)
    if cluster_size > 1:
        if labels is None:
            raise ValueError("cluster_size: labels are needed to estimate the dependence of errors")
        probs, labels = check_probs(probs, labels)
        check_clusters(labels, cluster_size)
        return clustered_reference(name, probs, labels, cluster_size, confidence)
    placeholder = torch.zeros(len(probs), dtype=torch.int64, device=probs.device)
    probs, placeholder = check_probs(probs, placeholder)
    tails = (1 - confidence) / 2, (1 + confidence) / 2
    binning = _CLASSWISE.get(name)
    if binning is not None and probs.shape[1] > 2:
        mean, deviation = classwise_moments(probs, NUM_BINS, binning)
        low, high = (mean + deviation * float(torch.special.ndtri(torch.tensor(t))) for t in tails)
        return mean, max(0.0, low), high
    if binning is not None:
        cells, error = two_classes(probs, placeholder, binning)
        drawn = error.statistic(_gaps(cells, seed))
    else:
        drawn = _DRAWN[name](probs, placeholder, seed)
    low, high = np.quantile(drawn, tails)
    return float(drawn.mean()), float(low), float(high)


def _gaps(cells: Cells, seed: int, num_draws: int = _NUM_DRAWS) -> Array:
    unused = ErrorOfGaps(lambda gaps: gaps, lambda gaps: 0.0)
    return DrawnErrors(cells, unused, seed, num_draws).draw_without_gaps()


def _statistics(name: str) -> Callable[[Tensor, Tensor, int], Array]:
    def draw(probs: Tensor, placeholder: Tensor, seed: int) -> Array:
        cells, error = OF_GAPS[name](*top_label(probs, placeholder))
        return error.statistic(_gaps(cells, seed))

    return draw


def _debiased(probs: Tensor, placeholder: Tensor, seed: int) -> Array:
    squares = _statistics("debiased_ece")(probs, placeholder, seed)
    return np.sqrt(np.maximum(squares, 0))


def _largest_gap(probs: Tensor, placeholder: Tensor, seed: int) -> Array:
    ranked = rank_top_label(*top_label(probs, placeholder))
    cells = cells_of_bins(ranked, equal_width_boundaries(ranked, NUM_BINS))
    per_sample = _gaps(cells, seed) * cells.num_samples / cells.count
    largest: Array = np.abs(per_sample).max(axis=1)
    return largest


def _smooth(probs: Tensor, placeholder: Tensor, seed: int) -> Array:
    confidence, correct = (t.double().cpu().numpy() for t in top_label(probs, placeholder))
    cells, position = even_cells(confidence, correct, _SMOOTH_CELLS)
    return fixed_widths(_gaps(cells, seed, _NUM_SMOOTH_DRAWS), position, _SMOOTH_CELLS)


_CLASSWISE: dict[str, Binning] = {
    "classwise_ece": "equal_width",
    "classwise_adaptive_ece": "equal_mass",
}
_DRAWN: dict[str, Callable[[Tensor, Tensor, int], Array]] = {
    "ece": _statistics("ece"),
    "adaptive_ece": _statistics("adaptive_ece"),
    "mce": _largest_gap,
    "smooth_ece": _smooth,
    "kde_ece": _statistics("kde_ece"),
    "debiased_ece": _debiased,
}
REFERENCED_METRICS = (*_DRAWN, *_CLASSWISE)
"""The metrics that have a calibrated reference: the calibration errors."""
