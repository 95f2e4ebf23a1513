"""Stratified draws of samples: splits, subsets, long tails."""

import math
from collections.abc import Sequence

import numpy as np

from trainables.data.core.types import Indices, Labels

_NEEDED = {
    "test_size": "three are needed, one each for training, validation and test",
    "validation": "two are needed, one for training and one for validation",
    "adapt_share": "two are needed in the validation split, one to judge and one to adapt",
}


def stratified_split(
    labels: Labels,
    held_out: float | int,
    *,
    seed: int,
    classes: Sequence[str] | None = None,
    option: str = "validation",
    needed: int = 2,
) -> tuple[Indices, Indices]:
    """Sorted indices of two parts of the samples, stratified by class; both contain all classes.

    ``held_out`` is the size of the second part: a fraction of N (float) or a count (int). At least
    ``needed`` samples per class are required: one to hold out, the rest for the first part, which
    may be split again. ``classes`` and ``option``, its name, are for messages.

    Raises:
        ValueError: A class has too few samples, or a part is too small to hold each class.
    """
    counts = np.unique_counts(labels)
    if (fewest := counts.counts.min()) < needed:
        rare = counts.values[counts.counts.argmin()]
        raise ValueError(
            f"class {rare if classes is None else repr(classes[rare])} has only "
            f"{'one sample' if fewest == 1 else f'{fewest} samples'}; {_NEEDED[option]}"
        )
    size = held_out if isinstance(held_out, int) else round(held_out * len(labels))
    least, most = len(counts.values), len(labels) - (needed - 1) * len(counts.values)
    if not least <= size <= most:
        raise ValueError(
            f"{option}={held_out} holds out {size} of {len(labels)} samples; with {least} "
            f"classes it must be {least} to {most}, so that each class is in all parts"
        )
    second = _draw(labels, size, seed=seed, spare=needed - 1)
    return np.setdiff1d(np.arange(len(labels)), second), second


def per_class_split(labels: Labels, count: int, *, seed: int) -> tuple[Indices, Indices]:
    """Sorted indices of two parts of the samples; the second has ``count`` of each class.

    Raises:
        ValueError: A class would have no sample in the first part.
    """
    classes, sizes = np.unique(labels, return_counts=True)
    if (fewest := int(sizes.min())) <= count:
        raise ValueError(
            f"validation_per_class={count} leaves none of the {fewest} samples of a class for "
            f"training; allowed: 1 to {fewest - 1}"
        )
    second = _choose(np.searchsorted(classes, labels), [count] * len(classes), seed)
    return np.setdiff1d(np.arange(len(labels)), second), second


def stratified_sample(labels: Labels, size: int, *, seed: int) -> Indices:
    """Sorted indices (size,) of a stratified sample with at least one sample of each class."""
    num_classes = len(np.unique(labels))
    if not num_classes <= size <= len(labels):
        raise ValueError(
            f"train_samples={size} must be {num_classes} (one for each class) to {len(labels)} "
            "(all that validation leaves)"
        )
    return _draw(labels, size, seed=seed, spare=0)


def long_tailed(labels: Labels, imbalance: float, *, seed: int) -> Indices:
    """Sorted indices of a long-tailed subset: class k of K keeps the share imbalance^(k/(K−1)).

    ``labels`` are (N,) and balanced. Source: K. Cao et al., Learning Imbalanced Datasets with
    Label-Distribution-Aware Margin Loss, 2019, section 4.

    Raises:
        ValueError: Fewer than two samples of a class would be left.
    """
    counts = np.bincount(labels)
    last = max(len(counts) - 1, 1)
    sizes = [int(counts.max() * imbalance ** (k / last)) for k in range(len(counts))]
    if min(sizes) < 2:
        least = math.ceil(2000 / counts.max()) / 1000
        raise ValueError(
            f"imbalance={imbalance:g} leaves {sizes[-1]} of {counts[-1]} samples of the last "
            f"class; {_NEEDED['validation']}: allowed: {least:g} to 1"
        )
    kept = [min(size, int(count)) for size, count in zip(sizes, counts, strict=True)]
    return _choose(labels, kept, seed)


def _draw(labels: Labels, size: int, *, seed: int, spare: int) -> Indices:
    """Draws ``size`` stratified indices: of each class at least one, and not the last ``spare``."""
    _, inverse, counts = np.unique(labels, return_inverse=True, return_counts=True)
    exact = size * counts / len(labels)
    quota = np.clip(np.floor(exact).astype(np.intp), 1, counts - spare)
    # Distribute the rounding remainder where it changes proportions least.
    while (missing := size - quota.sum()) != 0:
        free = quota < counts - spare if missing > 0 else quota > 1
        step = 1 if missing > 0 else -1
        quota[np.argmax(np.where(free, step * (exact - quota), -np.inf))] += step
    return _choose(inverse, quota.tolist(), seed)


def _choose(groups: Labels, sizes: Sequence[int], seed: int) -> Indices:
    """Sorted indices, as many of each group 0, 1 … as given, drawn at random."""
    generator = np.random.default_rng(seed)
    drawn = [
        generator.choice(np.flatnonzero(groups == group), size=size, replace=False)
        for group, size in enumerate(sizes)
    ]
    return np.sort(np.concatenate(drawn))
