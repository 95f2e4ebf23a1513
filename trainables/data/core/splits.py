"""Functions that build a :class:`Dataset` from samples and divide them into splits."""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from trainables.contract.metric_names import FEWEST_CLUSTERS
from trainables.data.core.bad_samples import BadSamples, settle
from trainables.data.core.base import Dataset, Split, Targets
from trainables.data.core.divisions import ByClass, Division, HeldOutSplit
from trainables.data.core.options import CommonOptions, Validation
from trainables.data.core.samples import Samples
from trainables.data.core.stratified import long_tailed, stratified_sample, stratified_split
from trainables.data.core.tasks import NO_OR_YES, OneClass, SeveralLabels, Task
from trainables.data.core.types import Indices, Labels, Masks

_ONE_LABEL_EACH = (
    "each sample has exactly one label, while several are allowed: the probabilities of the labels "
    "do not sum to 1; for one class of each sample give its name or number as the label, or the "
    "columns as soft_labels (of an array y: y.argmax(1))"
)

Given: TypeAlias = Labels | Masks | Targets


def size_and_path(validation: Validation) -> tuple[float | int, str | os.PathLike[str] | None]:
    """What the option ``validation`` gives: the size of the split, and its path or None."""
    return (validation, None) if isinstance(validation, float | int) else (0.1, validation)


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
    common: CommonOptions,
    notes: tuple[str, ...] = (),
    remarks: tuple[str, ...] = (),
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
        common: Of these, the seed of both draws, the sizes, and the imbalance, which is applied
            before validation samples are held out, so both are long-tailed.
        notes: See :class:`~trainables.data.core.base.Dataset`.
        remarks: As above; those about unseen values are added.
        task: None for one class per sample, or several labels if they are (N, L).
    """
    inputs, targets = train[0], _targets(train[1])
    if task is None:
        task = SeveralLabels(classes) if targets.labels.ndim == 2 else OneClass()
    if isinstance(task, SeveralLabels) and (targets.labels.sum(1) == 1).all():
        remarks = (*remarks, _ONE_LABEL_EACH)
    if common.imbalance is not None:
        tail = long_tailed(targets.labels, common.imbalance, seed=0)  # the same for every seed
        inputs, targets = inputs[tail], targets[tail]
    labels, names = task.strata(targets.labels, classes)
    split_seed, sample_seed = np.random.SeedSequence(common.seed).generate_state(2).tolist()
    kept = np.arange(len(labels))
    if held is None:
        kept, rows = stratified_split(labels, common.validation, seed=split_seed, classes=names)
        held = inputs[rows], targets[rows]
    if common.train_samples is not None:
        kept = kept[stratified_sample(labels[kept], common.train_samples, seed=sample_seed)]
    samples = measure(inputs[kept])
    unseen = [f"validation: {each}" for each in samples.unseen(held[0])]
    unseen += [f"test: {each}" for each in samples.unseen(test[0])]

    def split(raw: Any, of: Targets) -> Split:
        return Split(samples.encode(raw), of.labels, of.soft, of.weights, of.groups)

    of_held, of_test = _targets(held[1]), _targets(test[1])
    return Dataset(
        name=name,
        train=split(inputs[kept], targets[kept]),
        validation=split(held[0], of_held),
        test=split(test[0], of_test),
        classes=NO_OR_YES if task.names else classes,
        samples=samples,
        task=task,
        notes=notes,
        remarks=(*remarks, *_on_groups({"validation": of_held, "test": of_test}), *unseen),
    )


def build_from_parts(
    name: str,
    raw: Sequence[Any],
    targets: Sequence[Given],
    bad: list[BadSamples],
    classes: tuple[str, ...],
    *,
    common: CommonOptions,
    own_validation: bool = False,
    division: Division | None = None,
    notes: tuple[str, ...] = (),
    **options: Any,
) -> Dataset:
    """Builds a dataset of the usable samples of its parts: training, test, validation.

    ``raw`` and ``targets`` have an entry for each part. Without test samples, ``test_size`` is held
    out. If ``own_validation``, the last part has the validation samples. ``division`` says how
    training samples are divided; by default with equal shares of each class. For other options see
    :func:`build_dataset`.
    """
    notes = (*notes, *settle(bad, common.on_bad_sample))
    parts, good = [_targets(each) for each in targets], [part.good() for part in bad]

    def usable(part: int, rows: Indices) -> tuple[Any, Targets]:
        return raw[part][rows], parts[part][rows]

    rest, labels = good[0], parts[0].labels
    test = held = None
    if len(raw) - own_validation == 1:
        split = HeldOutSplit("test_size", common.test_size, seed=0)  # the same for every seed
        rest, rows = (division or ByClass()).hold_out(labels, rest, classes, split)
        test = usable(0, rows)
    if own_validation:
        held = usable(-1, good[-1])
    elif division is not None:
        split = HeldOutSplit("validation", common.validation, common.seed)
        rest, rows = division.hold_out(labels, rest, classes, split)
        held = usable(0, rows)
    return build_dataset(
        name,
        train=usable(0, rest),
        test=test or usable(1, good[1]),
        held=held,
        classes=classes,
        notes=notes,
        common=common,
        **options,
    )


def _on_groups(splits: Mapping[str, Targets]) -> tuple[str, ...]:
    """A remark on the units of intervals; empty without groups."""
    counts = {
        name: len(np.unique(each.groups))
        for name, each in splits.items()
        if each.groups is not None
    }
    if not counts:
        return ()
    sizes = " and ".join(f"{count:,} in the {name} split" for name, count in counts.items())
    remark = f"intervals and verdicts take groups as the unit: {sizes}"
    if min(counts.values()) < FEWEST_CLUSTERS:
        remark += f"; with fewer than {FEWEST_CLUSTERS} there are no intervals and no verdicts"
    return (remark,)


def _targets(given: Given) -> Targets:
    return given if isinstance(given, Targets) else Targets(given)
