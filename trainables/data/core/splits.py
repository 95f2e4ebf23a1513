"""Functions that build a :class:`Dataset` from samples and divide them into splits."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any, TypeAlias

import numpy as np

from trainables.contract.metric_names import FEWEST_CLUSTERS
from trainables.data.core.bad_samples import BadSamples, settle
from trainables.data.core.base import Dataset, Split, Targets
from trainables.data.core.divisions import ByClass, ByEqualRows, ByGroup, Division, HeldOutSplit
from trainables.data.core.equal_rows import EQUAL_ROWS, copies_of, equal_numbers
from trainables.data.core.options import CommonOptions, Validation
from trainables.data.core.samples import Samples
from trainables.data.core.stratified import (
    long_tailed,
    per_class_split,
    stratified_sample,
    stratified_split,
)
from trainables.data.core.tasks import NO_OR_YES, OneClass, SeveralLabels, Task
from trainables.data.core.types import Indices, Labels, Masks

_MISSING = ("", "nan", "none", "null", "na", "n/a")

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
    raw: Sequence[Any],
    targets: Sequence[Given],
    classes: tuple[str, ...],
    *,
    bad: list[BadSamples] | None = None,
    own_validation: bool = False,
    division: Division | None = None,
    measure: Callable[[Any], Samples],
    common: CommonOptions,
    notes: tuple[str, ...] = (),
    remarks: tuple[str, ...] = (),
    task: Task | None = None,
) -> Dataset:
    """Builds a dataset of the usable samples of its parts: training, test, validation.

    The test split is the same for every seed. The validation split depends only on ``seed`` and
    ``validation``, not on ``train_samples``. For the options see :mod:`trainables.data`.

    Args:
        name: Name of the dataset.
        raw: Samples of each part as read, indexable by an array of rows. Without test samples,
            ``test_size`` of the training part is held out.
        targets: Labels or targets of each part.
        classes: Class names; label names for multi-label data.
        bad: The unusable samples of each part; None if there are none.
        own_validation: Whether the last part has the validation samples; by default,
            ``validation`` of the training part.
        division: How training samples are divided; by default with equal shares of each class.
        measure: Creates the kind of sample from the training samples; it then encodes all splits.
        common: Of these, the seed, the sizes, and the imbalance, which is applied before validation
            samples are held out, so both are long-tailed.
        notes: See :class:`~trainables.data.core.base.Dataset`.
        remarks: As above; those about unseen values are added.
        task: None for one class per sample, or several labels if they are (N, L).
    """
    notes = (*notes, *settle(bad or [], common.on_bad_sample))
    parts = [each if isinstance(each, Targets) else Targets(each) for each in targets]
    good = [part.good() for part in bad or ()] or [np.arange(len(each.labels)) for each in parts]
    equal = equal_numbers(raw)
    if isinstance(division, ByEqualRows):
        _check_apart(
            [own[rows] for own, rows in zip(equal, good, strict=True)],
            own_validation=own_validation,
        )
        parts = [replace(each, groups=own) for each, own in zip(parts, equal, strict=True)]
        division = ByGroup(EQUAL_ROWS, equal[0])
    if task is None:
        task = SeveralLabels(classes) if parts[0].labels.ndim == 2 else OneClass()
    rows = _divide(
        parts,
        good,
        own_validation=own_validation,
        division=division,
        classes=classes,
        common=common,
    )
    rest, labels = rows["train"][1], parts[0].labels
    if lost := len(good[0]) - sum(len(own) for part, own in rows.values() if part == 0):
        remarks = (
            *remarks,
            f"{lost:,} rows are in no split, because a later split has their group",
        )
    if isinstance(task, SeveralLabels) and (labels[rest].sum(1) == 1).all():
        remarks = (*remarks, _ONE_LABEL_EACH)
    split_seed, sample_seed = np.random.SeedSequence(common.seed).generate_state(2).tolist()
    if common.validation_per_class is not None and "validation" not in rows:
        strata, _ = task.strata(labels[rest], classes)
        kept, held = per_class_split(strata, common.validation_per_class, seed=split_seed)
        rest, rows["validation"] = rest[kept], (0, rest[held])
    if common.imbalance is not None:  # the same for every seed
        rest = rest[long_tailed(labels[rest], common.imbalance, seed=0)]
    strata, names = task.strata(labels[rest], classes)
    kept = np.arange(len(rest))
    if "validation" not in rows:
        kept, held = stratified_split(strata, common.validation, seed=split_seed, classes=names)
        rows["validation"] = 0, rest[held]
    if common.train_samples is not None:
        kept = kept[stratified_sample(strata[kept], common.train_samples, seed=sample_seed)]
    rows["train"] = 0, rest[kept]
    found = {split: (raw[part][own], parts[part][own]) for split, (part, own) in rows.items()}
    samples = measure(found["train"][0])
    held_out = ("validation", "test")
    unseen = [f"{split}: {each}" for split in held_out for each in samples.unseen(found[split][0])]
    trained = equal[0][rows["train"][1]]
    copies = {
        split: copies_of(trained, equal[part][own])
        for split, (part, own) in ((split, rows[split]) for split in held_out)
    }
    of_groups = _on_groups({split: found[split][1] for split in held_out})
    splits = {split: Split(samples.encode(own), **vars(of)) for split, (own, of) in found.items()}
    return Dataset(
        name,
        splits["train"],
        splits["validation"],
        splits["test"],
        classes=NO_OR_YES if task.names else classes,
        samples=samples,
        task=task,
        notes=notes,
        remarks=(*remarks, *_on_classes(classes), *of_groups, *unseen),
        copies=copies,
    )


def _check_apart(equal: Sequence[Labels], *, own_validation: bool) -> None:
    """Raises ``ValueError`` if samples of two parts are equal."""
    names = ("train", *(["test"] if len(equal) - own_validation > 1 else []), "validation")
    for (first, ours), (second, theirs) in combinations(zip(names, equal, strict=False), 2):
        if count := int(np.isin(theirs, ours).sum()):
            raise ValueError(
                f"group={EQUAL_ROWS}: {count:,} samples of {second} equal a sample of {first}; "
                f"remove them there, or leave {second} out, so that it is held out of {first}"
            )


def _divide(
    parts: Sequence[Targets],
    good: Sequence[Indices],
    *,
    own_validation: bool,
    division: Division | None,
    classes: tuple[str, ...],
    common: CommonOptions,
) -> dict[str, tuple[int, Indices]]:
    """The part and the rows of each split, except a validation split with shares of each class."""
    rest, labels, found = good[0], parts[0].labels, {}
    if len(parts) - own_validation == 1:
        size = HeldOutSplit("test_size", common.test_size, seed=0)
        rest, rows = (division or ByClass()).hold_out(labels, rest, classes, size)
        found["test"] = 0, rows
    else:
        found["test"] = 1, good[1]
    if own_validation:
        found["validation"] = len(parts) - 1, good[-1]
    elif division is not None:
        size = HeldOutSplit("validation", common.validation, common.seed)
        rest, rows = division.hold_out(labels, rest, classes, size)
        found["validation"] = 0, rows
    return {"train": (0, rest), **found}


def _on_classes(classes: Sequence[str]) -> list[str]:
    """Remarks on classes that are alike, or named like a missing value."""
    by_form: dict[str, list[str]] = {}
    for name in classes:
        by_form.setdefault(name.strip().casefold(), []).append(name)
    alike = [" and ".join(map(repr, names)) for names in by_form.values() if len(names) > 1]
    missing = [repr(name) for form in _MISSING for name in by_form.get(form, ())]
    return [
        *(f"the classes {names} differ in spaces or capitals only" for names in alike),
        *(f"a class is called {name}: are these missing labels?" for name in missing),
    ]


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
