"""Stratified draws of samples: splits, subsets, long tails."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from trainables.data.core.types import Indices, Labels

_NEEDED = {
    "test_size": "three are needed, one each for training, validation and test",
    "validation": "two are needed, one for training and one for validation",
    "adapt_share": "two are needed in the validation split, one to judge and one to adapt",
}


@dataclass(frozen=True)
class HeldOutSplit:
    """A split to hold out: the option that gives its size, a fraction or a number, and the seed."""

    option: Literal["test_size", "validation", "adapt_share"]
    size: float | int
    seed: int

    @property
    def needed(self) -> int:
        """The number of splits that are still to be made, with the one for training."""
        return 3 if self.option == "test_size" else 2

    def size_of(self, total: int) -> int:
        """The number of samples to hold out, of so many."""
        return self.size if isinstance(self.size, int) else round(self.size * total)

    def count(self, total: int) -> int:
        """The number of samples to hold out; ``ValueError`` unless some are, and some remain."""
        count = self.size_of(total)
        if not 0 < count < total:
            raise ValueError(f"{self.option}={self.size} holds out {count} of {total} samples")
        return count


def stratified_split(
    labels: Labels, held: HeldOutSplit, classes: Sequence[str] | None = None
) -> tuple[Indices, Indices]:
    """Sorted indices of two parts of the samples, stratified by class; both contain all classes.

    The second part is held out. Each class has a sample there, and the rest in the first part,
    which may be split again. ``classes`` are for messages.

    Raises:
        ValueError: A class has too few samples, or a part is too small to hold each class.
    """
    counts, spare = np.unique_counts(labels), held.needed - 1
    if (fewest := counts.counts.min()) < held.needed:
        rare = counts.values[counts.counts.argmin()]
        raise ValueError(
            f"class {rare if classes is None else repr(classes[rare])} has only "
            f"{'one sample' if fewest == 1 else f'{fewest} samples'}; {_NEEDED[held.option]}"
        )
    size, least = held.size_of(len(labels)), len(counts.values)
    most = len(labels) - spare * least
    if not least <= size <= most:
        raise ValueError(
            f"{held.option}={held.size} holds out {size} of {len(labels)} samples; with {least} "
            f"classes it must be {least} to {most}, so that each class is in all parts"
        )
    second = _draw(labels, size, seed=held.seed, spare=spare)
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
