"""Calibration error by kernel density estimation on the simplex (Popordanoska et al. 2022)."""

import math
from typing import Literal, get_args

import torch
from torch import Tensor

from trainables.metrics._beta_kernel import (
    BANDWIDTHS,
    log_kernel,
    log_likelihoods,
    log_of,
    top_label_kernel_error,
)
from trainables.metrics._inputs import check_probs
from trainables.metrics._ranked import top_label
from trainables.plugins.arguments import check_choice

Kind = Literal["canonical", "top_label"]

MAX_EVALUATED = 2048
_CENTRES_PER_BLOCK = 1024


def kde_calibration_error(
    probs: Tensor, labels: Tensor, bandwidth: float | None = None, kind: Kind = "canonical"
) -> float:
    """L1 calibration error that estimates E[outcome | prediction] with a Dirichlet kernel.

    Mean over samples j of sum_k |r_jk - p_jk|, where r_jk = sum_{i != j} w_ij 1[y_i = k] and w_ij
    is proportional to the density of Dirichlet(p_i / bandwidth + 1) at p_j. Popordanoska et al.
    2022, eq. 9.

    The full computation takes O(N^2 K) time. So if N > 2,048, the mean over j uses 2,048 evenly
    spaced samples, while all N samples remain kernel centres: each r_j is exact, and only the outer
    mean is subsampled. Memory does not grow with N^2. For the top label, if N > 1,024, neighbours
    in confidence share one of 1,024 cells.

    Args:
        probs: Probabilities, shape (N, K), rows sum to one.
        labels: True classes, shape (N,), integers.
        bandwidth: Kernel bandwidth, above 0. None selects the one of the authors' 20 candidates in
            [1e-5, 1] with the largest leave-one-out likelihood, over 2,048 samples (top label:
            1,024). The normalisation is correct, unlike in the authors' code, which may also return
            -1.
        kind: "canonical" for all K probabilities jointly, or "top_label" for the largest one and
            its correctness.

    Returns:
        A number in [0, 2] ("canonical") or [0, 1] ("top_label"); nan where N = 1.
    """
    if bandwidth is not None and not 0 < bandwidth < math.inf:
        raise ValueError(f"bandwidth must be above 0 and finite, got {bandwidth!r}")
    check_choice("kind", kind, get_args(Kind))
    probs, labels = check_probs(probs, labels)
    if kind == "canonical":
        return float(kernel_error(probs, labels, bandwidth))
    return float(top_label_kernel_error(*top_label(probs, labels), bandwidth))


def kernel_error(probs: Tensor, labels: Tensor, bandwidth: float | None = None) -> Tensor:
    """The canonical error of checked inputs, a float64 scalar."""
    if len(probs) < 2:
        return probs.new_tensor(math.nan, dtype=torch.float64)
    evaluated = _spread_evenly(probs)
    points = probs[evaluated].double()
    if bandwidth is None:
        bandwidth = most_likely_bandwidth(points)
    ratio = _outcome_given_prediction(points, evaluated, probs, labels, bandwidth)
    return (ratio - points.T).abs().sum(dim=0).mean()


def _outcome_given_prediction(
    points: Tensor, evaluated: Tensor, probs: Tensor, labels: Tensor, bandwidth: float
) -> Tensor:
    """Kernel-weighted share of each class around each of M points, shape (K, M).

    Streams over the centres with a running maximum, so no weight underflows to 0 / 0.
    """
    log_points = log_of(points)
    lowest = torch.finfo(torch.float64).min
    peak = points.new_full((len(points),), lowest)
    mass = points.new_zeros(probs.shape[1], len(points))
    for start in range(0, len(probs), _CENTRES_PER_BLOCK):
        block = slice(start, start + _CENTRES_PER_BLOCK)
        logs = log_kernel(probs[block].double(), log_points, bandwidth)
        own = (evaluated >= start) & (evaluated < start + len(logs))
        logs[evaluated[own] - start, own.nonzero()[:, 0]] = lowest  # leave one out
        new_peak = torch.maximum(peak, logs.amax(dim=0))
        mass *= (peak - new_peak).exp_()
        mass.index_add_(0, labels[block], logs.sub_(new_peak).exp_())
        peak = new_peak
    return mass / mass.sum(dim=0)


def most_likely_bandwidth(probs: Tensor) -> float:
    """The authors' bandwidth with the largest leave-one-out likelihood of probabilities (N, K).

    If N > 2,048, evenly spaced samples are used.
    """
    points = probs[_spread_evenly(probs)].double()
    return BANDWIDTHS[int(log_likelihoods(points, BANDWIDTHS).argmax())]


def _spread_evenly(probs: Tensor) -> Tensor:
    """Indices of all samples, or of 2,048 evenly spaced ones."""
    count = min(len(probs), MAX_EVALUATED)
    return torch.arange(count, device=probs.device) * len(probs) // count
