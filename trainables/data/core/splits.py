"""Functions that build a :class:`Dataset` from samples and divide them into splits."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, TypeAlias

import numpy as np

from trainables.contract.metric_names import FEWEST_CLUSTERS
from trainables.data.core.bad_samples import BadSamples, settle
from trainables.data.core.base import Dataset, Split, Targets
from trainables.data.core.divisions import ByClass, ByEqualRows, ByGroup, Division
from trainables.data.core.equal_rows import EQUAL_ROWS, copies_of, equal_numbers
from trainables.data.core.options import CommonOptions, Validation
from trainables.data.core.samples import Samples
from trainables.data.core.stratified import (
    HeldOutSplit,
    long_tailed,
    per_class_split,
    stratified_sample,
    stratified_split,
)
from trainables.data.core.tasks import NO_OR_YES, OneClass, SeveralLabels, Task
from trainables.data.core.types import Indices, Labels

_MISSING = ("", "nan", "none", "null", "na", "n/a")

_ONE_LABEL_EACH = (
    "each sample has exactly one label, while several are allowed: the probabilities of the labels "
    "do not sum to 1; for one class of each sample give its name or number as the label, or the "
    "columns as soft_labels (of an array y: y.argmax(1))"
)


def size_and_path(validation: Validation) -> tuple[float | int, str | os.PathLike[str] | None]:
    """What the option ``validation`` gives: the size of the split, and its path or None."""
    return (validation, None) if isinstance(validation, float | int) else (0.1, validation)


def join_halves(classes: Sequence[str]) -> tuple[str, str]:
    """Names of the two classes that join the first and the second half of the classes."""
    half = len(classes) // 2
    return "/".join(classes[:half]), "/".join(classes[half:])


@dataclass(frozen=True)
class Part:
    """A part of a dataset as it is stored: of training, test or validation.

    ``raw`` are its samples, indexable by an array of rows; ``bad`` the unusable ones.
    """

    raw: Any
    targets: Targets
    bad: BadSamples | None = None

    @property
    def good(self) -> Indices:
        """Rows of the usable samples."""
        return np.arange(len(self.targets.labels)) if self.bad is None else self.bad.good()


Parts: TypeAlias = Mapping[str, Part]
"""``train``, ``test`` and ``validation``, in this order; the last two may be missing."""


@dataclass(frozen=True, kw_only=True)
class About:
    """What is known about a dataset besides its samples.

    Attributes:
        classes: Class names; label names for multi-label data.
        measure: Creates the kind of sample from the training samples; it then encodes all splits.
        division: How training samples are divided; by default with equal shares of each class.
        task: None for one class per sample, or several labels if they are (N, L).
        notes: See :class:`~trainables.data.core.base.Dataset`.
        remarks: As above; those about unseen values are added.
    """

    name: str
    classes: tuple[str, ...]
    measure: Callable[[Any], Samples]
    division: Division | None = None
    task: Task | None = None
    notes: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()


def build_dataset(parts: Parts, about: About, common: CommonOptions) -> Dataset:
    """Builds a dataset of the usable samples of its parts.

    Without test samples, ``test_size`` of the training part is held out; without validation
    samples, ``validation``. The test split is the same for every seed. The validation split depends
    only on ``seed`` and ``validation``, not on ``train_samples``. ``imbalance`` is applied before
    validation samples are held out, so both are long-tailed. For the options see
    :mod:`trainables.data`.
    """
    bad = [part.bad for part in parts.values() if part.bad is not None]
    notes = (*about.notes, *settle(bad, common.on_bad_sample))
    targets = {name: part.targets for name, part in parts.items()}
    found = equal_numbers([part.raw for part in parts.values()])
    equal = dict(zip(parts, found, strict=True))
    division = about.division
    if isinstance(division, ByEqualRows):
        _check_apart({name: equal[name][part.good] for name, part in parts.items()})
        targets = {name: replace(each, groups=equal[name]) for name, each in targets.items()}
        division = ByGroup(EQUAL_ROWS, equal["train"])
    labels, remarks = targets["train"].labels, about.remarks
    task = about.task or (SeveralLabels(about.classes) if labels.ndim == 2 else OneClass())
    rows = _divide(parts, labels, replace(about, division=division), common)
    rest = rows["train"][1]
    of_train = sum(len(own) for part, own in rows.values() if part == "train")
    if lost := len(parts["train"].good) - of_train:
        remarks += (f"{lost:,} rows are in no split, because a later split has their group",)
    if isinstance(task, SeveralLabels) and (labels[rest].sum(1) == 1).all():
        remarks += (_ONE_LABEL_EACH,)
    split_seed, sample_seed = np.random.SeedSequence(common.seed).generate_state(2).tolist()
    if common.validation_per_class is not None and "validation" not in rows:
        strata, _ = task.strata(labels[rest], about.classes)
        kept, held = per_class_split(strata, common.validation_per_class, seed=split_seed)
        rest, rows["validation"] = rest[kept], ("train", rest[held])
    if common.imbalance is not None:  # the same for every seed
        rest = rest[long_tailed(labels[rest], common.imbalance, seed=0)]
    strata, names = task.strata(labels[rest], about.classes)
    kept = np.arange(len(rest))
    if "validation" not in rows:
        size = HeldOutSplit("validation", common.validation, split_seed)
        kept, held = stratified_split(strata, size, names)
        rows["validation"] = "train", rest[held]
    if common.train_samples is not None:
        kept = kept[stratified_sample(strata[kept], common.train_samples, seed=sample_seed)]
    rows["train"] = "train", rest[kept]
    raw = {split: parts[part].raw[own] for split, (part, own) in rows.items()}
    of_splits = {split: targets[part][own] for split, (part, own) in rows.items()}
    samples = about.measure(raw["train"])
    held_out = ("validation", "test")
    numbers = {split: equal[part][own] for split, (part, own) in rows.items()}
    splits = {each: Split(samples.encode(raw[each]), **vars(of_splits[each])) for each in rows}
    return Dataset(
        about.name,
        splits["train"],
        splits["validation"],
        splits["test"],
        classes=NO_OR_YES if task.names else about.classes,
        samples=samples,
        task=task,
        notes=notes,
        remarks=(
            *remarks,
            *_on_classes(about.classes),
            *_on_groups({split: of_splits[split] for split in held_out}),
            *(f"{split}: {each}" for split in held_out for each in samples.unseen(raw[split])),
        ),
        copies={split: copies_of(numbers["train"], numbers[split]) for split in held_out},
    )


def _check_apart(equal: Mapping[str, Labels]) -> None:
    """Raises ``ValueError`` if samples of two parts are equal."""
    for (first, ours), (second, theirs) in combinations(equal.items(), 2):
        if count := int(np.isin(theirs, ours).sum()):
            raise ValueError(
                f"group={EQUAL_ROWS}: {count:,} samples of {second} equal a sample of {first}; "
                f"remove them there, or leave {second} out, so that it is held out of {first}"
            )


def _divide(
    parts: Parts, labels: Any, about: About, common: CommonOptions
) -> dict[str, tuple[str, Indices]]:
    """The part and the rows of each split, except a validation split with shares of each class.

    ``labels`` are those of the training part.
    """
    rows = {name: (name, part.good) for name, part in parts.items()}
    wanted = [HeldOutSplit("test_size", common.test_size, seed=0)]
    if about.division is not None:
        wanted.append(HeldOutSplit("validation", common.validation, common.seed))
    for held in wanted:
        if (split := held.option.removesuffix("_size")) not in parts:
            division = about.division or ByClass()
            rest, own = division.hold_out(labels, rows["train"][1], about.classes, held)
            rows |= {"train": ("train", rest), split: ("train", own)}
    return rows


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
