"""Top-label calibration error by kernel density estimation with a Beta kernel over confidences.

Popordanoska et al. 2022 with two outcomes, correct and wrong, so one confidence describes a
prediction. Beyond 1,024 different confidences, neighbours share a cell, which keeps this fast.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

MAX_CELLS = 1024
BANDWIDTHS: list[float] = torch.cat(
    [torch.logspace(-5, -1, 15), torch.linspace(0.2, 1, 5)]
).tolist()
"""The authors' candidates."""

_ROWS_PER_BLOCK = 128  # that fit into the CPU cache
_LOWEST_DOUBLE = -600.0


def top_label_kernel_error(
    confidence: Tensor, correct: Tensor, bandwidth: float | None = None
) -> Tensor:
    """The error of confidences (N,) and correctness (N,), a float64 scalar; nan if N = 1.

    The accuracy at each sample is estimated from all other samples, exactly for up to 1,024
    different confidences.
    """
    if (num_samples := len(confidence)) < 2:
        return confidence.new_tensor(math.nan, dtype=torch.float64)
    if bandwidth is None:
        bandwidth = most_likely_bandwidth(confidence)
    count, mean, positives = equal_mass_cells(confidence, correct, MAX_CELLS)
    centres = pairs(mean)
    logs = log_kernel(centres, log_of(centres), bandwidth)
    logs.diagonal()[count <= 1] = -math.inf  # leave one out
    kernel = relative(logs)
    own = kernel.diagonal()
    mass, right = count @ kernel - own, positives @ kernel
    of_right = ((right - own).clamp(min=0) / mass - mean).abs()
    of_wrong = (right / mass - mean).abs()
    return (positives * of_right + (count - positives) * of_wrong).sum() / num_samples


def most_likely_bandwidth(confidence: Tensor) -> float:
    """The value in `BANDWIDTHS` with the largest leave-one-out likelihood of confidences (N,).

    If N > 1,024, the likelihood uses 1,024 evenly spaced samples. If N > 512, every second sample
    selects the six bandwidths that are then compared on all.
    """
    count = min(len(confidence), MAX_CELLS)
    chosen = torch.arange(count, device=confidence.device) * len(confidence) // count
    points = pairs(confidence[chosen])
    candidates = BANDWIDTHS
    if count > MAX_CELLS // 2:
        best = log_likelihoods(points[::2], BANDWIDTHS).argsort()[-6:]
        candidates = [BANDWIDTHS[place] for place in best.tolist()]
    return candidates[int(log_likelihoods(points, candidates).argmax())]


def log_likelihoods(points: Tensor, bandwidths: Sequence[float]) -> Tensor:
    """Leave-one-out log-likelihoods of points (M, K), one for each bandwidth.

    They are one tensor, because reading each value would synchronise with the GPU.
    """
    products = log_of(points) @ points.T
    products.fill_diagonal_(-math.inf)

    def of_bandwidth(bandwidth: float) -> Tensor:
        norms = log_beta(points / bandwidth)
        blocks = torch.split(products, _ROWS_PER_BLOCK)
        return torch.stack([(s / bandwidth - norms).logsumexp(dim=1).sum() for s in blocks]).sum()

    return torch.stack([of_bandwidth(each) for each in bandwidths])


def equal_mass_cells(
    confidence: Tensor, correct: Tensor, most: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Group N samples into at most `most` cells: number, mean confidence, number correct.

    One cell per confidence if there are no more of them. Otherwise, samples of equal confidence
    share their outcomes evenly, so their order does not matter.
    """
    scores, order = confidence.double().sort()
    right = torch.cat([scores.new_zeros(1), correct[order].double().cumsum(0)])
    first, last = (torch.searchsorted(scores, scores, right=side) for side in (False, True))
    shares = (right[last] - right[first]) / (last - first)
    sums = torch.stack([torch.ones_like(scores), scores, shares]).cumsum(dim=1)
    is_last = torch.cat([scores.diff() > 0, torch.ones_like(scores[:1], dtype=torch.bool)])
    ends = is_last.nonzero()[:, 0]
    if len(ends) > most:
        ends = torch.arange(1, most + 1, device=scores.device) * len(scores) // most - 1
    count, total, positives = sums[:, ends].diff(dim=1, prepend=torch.zeros_like(sums[:, :1]))
    return count, total / count, positives


def pairs(confidence: Tensor) -> Tensor:
    """The probabilities of correct and wrong, float64 (N, 2), from confidences (N,)."""
    confidence = confidence.double()
    return torch.stack([confidence, 1 - confidence], dim=1)


def log_kernel(centres: Tensor, log_points: Tensor, bandwidth: float) -> Tensor:
    """Log density of Dirichlet(centre / bandwidth + 1) at each point, (centres, points)."""
    exponents = centres / bandwidth
    return exponents @ log_points.T - log_beta(exponents)[:, None]


def log_beta(exponents: Tensor) -> Tensor:
    """Logarithm of the Beta function of ``exponents`` (N, K) + 1, (N,)."""
    alphas = exponents + 1
    return torch.lgamma(alphas).sum(dim=1) - torch.lgamma(alphas.sum(dim=1))


def log_of(probs: Tensor) -> Tensor:
    """Logarithms; a probability of 0 counts as the smallest normal number."""
    return probs.clamp(min=torch.finfo(probs.dtype).tiny).log()


def relative(log_kernel: Tensor) -> Tensor:
    """Densities divided by the maximum of each column, from their logarithms; works in place."""
    return log_kernel.sub_(log_kernel.amax(dim=0)).clamp_(min=_LOWEST_DOUBLE).exp_()
