"""Post-hoc calibration of a split by itself, so that nothing is judged on what it was fitted on."""

from collections.abc import Callable
from typing import Protocol, Self

import torch
from torch import Tensor

from trainables.metrics._inputs import check_clusters, check_logits
from trainables.posthoc.temperature import TemperatureScaling


class Calibrator(Protocol):
    """What is fitted on logits and labels, and then calibrates logits."""

    def fit(self, logits: Tensor, labels: Tensor) -> Self:
        """Fit it on logits (N, K) and labels (N,)."""

    def __call__(self, logits: Tensor) -> Tensor:
        """Calibrated logits (N, K)."""


def cross_fitted(
    logits: Tensor,
    labels: Tensor,
    make: Callable[[], Calibrator] = TemperatureScaling,
    seed: int = 0,
    cluster_size: int = 1,
) -> Tensor:
    """Calibrate each half of a split by what was fitted on the other half.

    The halves are stratified by class. A sample's own label has no part in what is done to it, so
    metrics of the result are as honest as on new data, where the fit on the whole split, with
    twice the samples, is a little better still.

    Args:
        logits: Shape (N, K), floats, N of at least 2.
        labels: True classes, shape (N,), integers.
        make: Makes what is fitted.
        seed: Of the halves.
        cluster_size: How many rows next to each other are of one sample, as an image has pixels:
            they are in one half, and the halves are drawn without regard to classes.

    Returns:
        Calibrated logits (N, K).

    Raises:
        TypeError: If the arguments are not tensors of floats and of integers.
        ValueError: If shapes or values are not as above.
    """
    check_logits(logits, labels)
    check_clusters(labels, cluster_size)
    if len(labels) < 2 * cluster_size:
        raise ValueError(f"labels must hold at least 2 samples, got {len(labels) // cluster_size}")
    kinds = labels if cluster_size == 1 else torch.zeros_like(labels[::cluster_size])
    first = stratified_half(kinds, seed).repeat_interleave(cluster_size)
    calibrated = torch.empty_like(logits)
    for half in (first, ~first):
        calibrated[half] = make().fit(logits[~half], labels[~half])(logits[half]).to(logits.dtype)
    return calibrated


def stratified_half(labels: Tensor, seed: int = 0) -> Tensor:
    """Whether a sample is in the first half, (N,): every other one of each class, drawn."""
    drawn = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed))
    by_class = drawn[labels.cpu()[drawn].argsort(stable=True)]
    first = torch.zeros(len(labels), dtype=torch.bool)
    first[by_class[::2]] = True
    return first.to(labels.device)
