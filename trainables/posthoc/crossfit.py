"""Cross-fitting: post-hoc calibration of a split without evaluating on the samples of the fit."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import TypeVar

import torch
from torch import Tensor

from trainables.metrics._inputs import check_clusters, check_logits
from trainables.posthoc.base import PostHoc
from trainables.posthoc.temperature import Criterion, TemperatureScaling

M = TypeVar("M", bound=PostHoc)


def cross_fitted(
    logits: Tensor,
    labels: Tensor,
    make: Callable[[], PostHoc] = TemperatureScaling,
    seed: int = 0,
    cluster_size: int = 1,
    num_folds: int = 2,
) -> Tensor:
    """Calibrates each fold of a split with a calibrator fitted on the other folds.

    The label of a sample does not affect its own calibration, so metrics of the result are not
    optimistic. They are slightly pessimistic for the fit on the whole split, which has more
    samples. The folds are random, not stratified by class: with equal class counts in all folds,
    the offsets of a method would learn the counts of the samples that it is measured on. With a
    ``cluster_size`` above 1, the consecutive rows of a sample, such as the pixels of an image, stay
    in one fold.

    Raises:
        TypeError: If the arguments are not tensors of floats (N, K) and of integers (N,).
        ValueError: If shapes or values are wrong, or there are fewer samples than folds.
    """
    calibrated = torch.empty_like(logits)
    for own, fitted in _fitted(logits, labels, make, seed, cluster_size, num_folds):
        calibrated[own] = fitted(logits[own]).to(logits.dtype)
    return calibrated


def cross_fitted_temperatures(
    logits: Tensor, labels: Tensor, criterion: Criterion = "nll", cluster_size: int = 1
) -> Tensor:
    """The temperatures (N, 1), float64, of :func:`cross_fitted` with temperature scaling."""
    found = torch.empty(len(labels), 1, dtype=torch.float64, device=logits.device)
    make = partial(TemperatureScaling, criterion)
    for own, fitted in _fitted(logits, labels, make, cluster_size=cluster_size):
        found[own] = fitted.temperature
    return found


def _fitted(
    logits: Tensor,
    labels: Tensor,
    make: Callable[[], M],
    seed: int = 0,
    cluster_size: int = 1,
    num_folds: int = 2,
) -> Iterator[tuple[Tensor, M]]:
    """Membership in each fold, and the calibrator fitted on the other folds."""
    check_logits(logits, labels)
    check_clusters(labels, cluster_size)
    count = len(labels) // cluster_size
    if count < num_folds:
        raise ValueError(f"labels must hold at least {num_folds} samples, got {count}")
    fold = random_folds(count, num_folds, seed).to(labels.device).repeat_interleave(cluster_size)
    for own in each_fold(fold):
        yield own, make().fit(logits[~own], labels[~own])


def random_folds(count: int, num_folds: int = 2, seed: int = 0) -> Tensor:
    """The fold of each of `count` samples, int64 (N,); folds differ by at most one sample."""
    drawn = torch.randperm(count, generator=torch.Generator().manual_seed(seed))
    return drawn.argsort() % num_folds


def each_fold(fold: Tensor) -> Iterator[Tensor]:
    """Membership in each fold, bool (N,), from the fold of each sample (N,)."""
    return (fold == index for index in range(int(fold.max()) + 1))
