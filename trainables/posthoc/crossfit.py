"""Cross-fitting: post-hoc calibration of a split without evaluating on the samples of the fit."""

from collections.abc import Callable

import torch
from torch import Tensor

from trainables.metrics._inputs import check_clusters, check_logits
from trainables.posthoc.base import PostHoc
from trainables.posthoc.temperature import TemperatureScaling


def cross_fitted(
    logits: Tensor,
    labels: Tensor,
    make: Callable[[], PostHoc] = TemperatureScaling,
    seed: int = 0,
    cluster_size: int = 1,
) -> Tensor:
    """Calibrates each half of a split with a calibrator fitted on the other half.

    The halves are stratified by class. The label of a sample does not affect its own calibration,
    so metrics of the result are not optimistic. They are slightly pessimistic for the fit on the
    whole split, which has twice the samples. With a ``cluster_size`` above 1, the consecutive rows
    of a sample, such as the pixels of an image, stay in one half, and the halves are not
    stratified.

    Raises:
        TypeError: If the arguments are not tensors of floats (N, K) and of integers (N,).
        ValueError: If shapes or values are wrong, or there are fewer than two samples.
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
    """Membership in the first half, bool (N,): every second sample of each class, shuffled."""
    drawn = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed))
    by_class = drawn[labels.cpu()[drawn].argsort(stable=True)]
    first = torch.zeros(len(labels), dtype=torch.bool)
    first[by_class[::2]] = True
    return first.to(labels.device)
