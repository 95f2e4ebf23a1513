"""Stratified, seeded splits, and the function that builds a :class:`Dataset` from samples."""

import math
import os
from collections.abc import Callable, Sequence
from typing import Annotated, Any, TypeAlias

import numpy as np

from trainables.data.core.bad_samples import BadSamples, OnBadSample, settle
from trainables.data.core.base import Dataset, Split, Targets
from trainables.data.core.samples import Samples
from trainables.data.core.tasks import NO_OR_YES, OneClass, SeveralLabels, Task, strata
from trainables.data.core.types import Indices, Labels, Masks
from trainables.plugins.components import Range

HeldOut: TypeAlias = (
    Annotated[float, Range(0, 1, open_low=True, open_high=True)] | Annotated[int, Range(1)]
)
"""Size of a held-out split: a fraction, or a number of samples."""

Validation: TypeAlias = HeldOut | str | os.PathLike[str]
"""Size of the validation split, or the path of its samples."""

SampleCount: TypeAlias = Annotated[int, Range(1)] | None
"""Number of samples to keep; ``None`` keeps all."""

Imbalance: TypeAlias = Annotated[float, Range(0, 1, open_low=True)] | None
"""Size of the rarest class over that of the most frequent one."""

_NEEDED = {
    "test_size": "three are needed, one each for training, validation and test",
    "validation": "two are needed, one for training and one for validation",
    "adapt_share": "two are needed in the validation split, one to judge and one to adapt",
}

_ONE_LABEL_EACH = (
    "each sample has exactly one label, while several are allowed: the probabilities of the labels "
    "do not sum to 1; for one class of each sample give its name or number as the label, or the "
    "columns as soft_labels (of an array y: y.argmax(1))"
)

Given: TypeAlias = Labels | Masks | Targets


def size_and_path(validation: Validation) -> tuple[float | int, str | os.PathLike[str] | None]:
    """What the option ``validation`` gives: the size of the split, and its path or None."""
    return (validation, None) if isinstance(validation, float | int) else (0.1, validation)


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


def split_off_test(
    labels: Labels, rows: Indices, classes: tuple[str, ...], test_size: float | int
) -> list[Indices]:
    """Splits ``rows`` into the rest and a test split, which is the same for every seed.

    ``labels`` are (N,) or (N, L) of all samples. Errors: see :func:`stratified_split`.
    """
    kinds, names = strata(labels[rows], classes)
    rest, held = stratified_split(
        kinds, test_size, seed=0, classes=names, option="test_size", needed=3
    )
    return [rows[rest], rows[held]]


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
    generator = np.random.default_rng(seed)
    last = max(len(counts) - 1, 1)
    sizes = [int(counts.max() * imbalance ** (k / last)) for k in range(len(counts))]
    if min(sizes) < 2:
        least = math.ceil(2000 / counts.max()) / 1000
        raise ValueError(
            f"imbalance={imbalance:g} leaves {sizes[-1]} of {counts[-1]} samples of the last "
            f"class; {_NEEDED['validation']}: allowed: {least:g} to 1"
        )
    drawn = [
        generator.choice(np.flatnonzero(labels == k), size=min(size, int(counts[k])), replace=False)
        for k, size in enumerate(sizes)
    ]
    return np.sort(np.concatenate(drawn))


def join_halves(classes: Sequence[str]) -> tuple[str, str]:
    """Names of the two classes that join the first and the second half of the classes."""
    half = len(classes) // 2
    return "/".join(classes[:half]), "/".join(classes[half:])


def build_dataset(
    name: str,
    *,
    train: tuple[Any, Given],
    test: tuple[Any, Given],
    held: tuple[Any, Given] | None = None,
    classes: tuple[str, ...],
    measure: Callable[[Any], Samples],
    validation: float | int,
    train_samples: int | None,
    seed: int,
    notes: tuple[str, ...] = (),
    remarks: tuple[str, ...] = (),
    imbalance: float | None = None,
    task: Task | None = None,
) -> Dataset:
    """Builds a dataset: holds out validation data and subsamples the rest to ``train_samples``.

    The validation split depends only on ``seed`` and ``validation``, not on ``train_samples``. For
    the options see :mod:`trainables.data`.

    Args:
        name: Name of the dataset.
        train: Samples as read, indexable by an array of rows, and their labels or targets.
        test: The same for the test split.
        held: The same for the validation split; by default, ``validation`` of ``train``.
        classes: Class names; label names for multi-label data.
        measure: Creates the kind of sample from the training samples; it then encodes all splits.
        validation: Size of the validation split: a fraction, or a number of samples.
        train_samples: None keeps all.
        seed: Seed of both draws.
        notes: See :class:`~trainables.data.core.base.Dataset`.
        remarks: As above; those about unseen values are added.
        imbalance: Applied before validation samples are held out, so both are long-tailed.
        task: None for one class per sample, or several labels if they are (N, L).
    """
    inputs, targets = train[0], _targets(train[1])
    if task is None:
        task = SeveralLabels(classes) if targets.labels.ndim == 2 else OneClass()
    if isinstance(task, SeveralLabels) and (targets.labels.sum(1) == 1).all():
        remarks = (*remarks, _ONE_LABEL_EACH)
    if imbalance is not None:
        tail = long_tailed(targets.labels, imbalance, seed=0)  # the same for every seed
        inputs, targets = inputs[tail], targets[tail]
    labels, names = task.strata(targets.labels, classes)
    split_seed, sample_seed = np.random.SeedSequence(seed).generate_state(2).tolist()
    kept = np.arange(len(labels))
    if held is None:
        kept, rows = stratified_split(labels, validation, seed=split_seed, classes=names)
        held = inputs[rows], targets[rows]
    if train_samples is not None:
        kept = kept[stratified_sample(labels[kept], train_samples, seed=sample_seed)]
    samples = measure(inputs[kept])
    unseen = [f"validation: {each}" for each in samples.unseen(held[0])]
    unseen += [f"test: {each}" for each in samples.unseen(test[0])]

    def split(raw: Any, of: Targets) -> Split:
        return Split(samples.encode(raw), of.labels, of.soft, of.weights)

    return Dataset(
        name=name,
        train=split(inputs[kept], targets[kept]),
        validation=split(held[0], _targets(held[1])),
        test=split(test[0], _targets(test[1])),
        classes=NO_OR_YES if task.names else classes,
        samples=samples,
        task=task,
        notes=notes,
        remarks=(*remarks, *unseen),
    )


def build_from_parts(
    name: str,
    raw: Sequence[Any],
    targets: Sequence[Given],
    bad: list[BadSamples],
    classes: tuple[str, ...],
    *,
    on_bad_sample: OnBadSample,
    own_validation: bool = False,
    test_size: float | int = 0.2,
    notes: tuple[str, ...] = (),
    **options: Any,
) -> Dataset:
    """Builds a dataset of the usable samples of its parts: training, test, validation.

    ``raw`` and ``targets`` have an entry for each part. Without test samples, ``test_size`` is held
    out. If ``own_validation``, the last part has the validation samples. For ``**options`` see
    :func:`build_dataset`.
    """
    notes = (*notes, *settle(bad, on_bad_sample))
    parts, good = [_targets(each) for each in targets], [part.good() for part in bad]

    def usable(part: int, rows: Indices) -> tuple[Any, Targets]:
        return raw[part][rows], parts[part][rows]

    if len(raw) - own_validation == 1:
        rows = split_off_test(parts[0].labels, good[0], classes, test_size)
        train, test = (usable(0, each) for each in rows)
    else:
        train, test = usable(0, good[0]), usable(1, good[1])
    return build_dataset(
        name,
        train=train,
        test=test,
        held=usable(-1, good[-1]) if own_validation else None,
        classes=classes,
        notes=notes,
        **options,
    )


def _targets(given: Given) -> Targets:
    return given if isinstance(given, Targets) else Targets(given)


def _draw(labels: Labels, size: int, *, seed: int, spare: int) -> Indices:
    """Draws ``size`` stratified indices: of each class at least one, and not the last ``spare``."""
    values, inverse, counts = np.unique(labels, return_inverse=True, return_counts=True)
    exact = size * counts / len(labels)
    quota = np.clip(np.floor(exact).astype(np.intp), 1, counts - spare)
    # Distribute the rounding remainder where it changes proportions least.
    while (missing := size - quota.sum()) != 0:
        free = quota < counts - spare if missing > 0 else quota > 1
        step = 1 if missing > 0 else -1
        quota[np.argmax(np.where(free, step * (exact - quota), -np.inf))] += step
    generator = np.random.default_rng(seed)
    drawn = [
        generator.choice(np.flatnonzero(inverse == index), size=quota[index], replace=False)
        for index in range(len(values))
    ]
    return np.sort(np.concatenate(drawn))
