"""Cross-fitting: post-hoc calibration of a split without evaluating on the samples of the fit."""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from trainables.metrics._inputs import check_logits
from trainables.metrics.inference.clusters import clusters_of
from trainables.posthoc.base import PostHoc
from trainables.posthoc.temperature import TemperatureScaling


def cross_fitted(
    logits: Tensor,
    labels: Tensor,
    make: Callable[[], PostHoc] = TemperatureScaling,
    seed: int = 0,
    clusters: Tensor | None = None,
    num_folds: int = 2,
) -> Tensor:
    """Calibrates each fold of a split with a calibrator fitted on the other folds.

    The label of a sample does not affect its own calibration, so metrics of the result are not
    optimistic. They are slightly pessimistic for the fit on the whole split, which has more
    samples. The folds are random, not stratified by class: with equal class counts in all folds,
    the offsets of a method would learn the counts of the samples that it is measured on. Rows of
    one of the ``clusters`` (N,), such as a patient's or an image's, stay in one fold.

    Raises:
        TypeError: If the arguments are not tensors of floats (N, K) and of integers (N,).
        ValueError: If shapes or values are wrong, or there are fewer samples, or clusters, than
            folds.
    """
    folds = random_folds(len(labels), num_folds, seed, clusters)
    check_logits(logits, labels)
    calibrated = torch.empty_like(logits)
    for own in each_fold(folds.to(labels.device)):
        calibrated[own] = make().fit(logits[~own], labels[~own])(logits[own]).to(logits.dtype)
    return calibrated


def random_folds(
    count: int, num_folds: int = 2, seed: int = 0, clusters: Tensor | None = None
) -> Tensor:
    """The fold of each of `count` samples, int64 (N,); folds differ by at most one sample.

    With ``clusters`` (N,), by at most one cluster; each is in one fold. ``ValueError`` if there are
    fewer than folds.
    """
    grouped = clusters_of(clusters, count)
    units = count if grouped is None else len(grouped)
    if units < num_folds:
        what = "samples" if grouped is None else "clusters"
        raise ValueError(f"labels must hold at least {num_folds} {what}, got {units}")
    drawn = torch.randperm(units, generator=torch.Generator().manual_seed(seed))
    folds = drawn.argsort() % num_folds
    return folds if grouped is None else folds[torch.from_numpy(grouped.of_row)]


def each_fold(fold: Tensor) -> Iterator[Tensor]:
    """Membership in each fold, bool (N,), from the fold of each sample (N,)."""
    return (fold == index for index in range(int(fold.max()) + 1))
