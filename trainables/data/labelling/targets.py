"""Targets of samples: classes, class probabilities, weights."""

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from trainables.data.core.bad_samples import BadSamples
from trainables.data.core.base import Targets
from trainables.data.core.types import Labels, without_mask
from trainables.data.labelling.shares import as_shares
from trainables.plugins.arguments import few

Values: TypeAlias = npt.NDArray[Any]
"""Labels as stored: int64 or fixed-width strings (N,), floats (N, K), or booleans (N, L)."""

Names: TypeAlias = tuple[str, ...] | None
Indexed: TypeAlias = tuple[list[Targets], tuple[str, ...]]
Floats: TypeAlias = npt.NDArray[np.float32]


def index_parts(values: Sequence[Values], names: Names, bad: Sequence[BadSamples]) -> Indexed:
    """Converts labels or class probabilities, as users store them, to targets, with the names.

    Each part, of which the first is for training, has labels (N,), integers from 0 or strings;
    class probabilities (N, K), floats; or multi-label indicators (N, L), booleans. If the first has
    probabilities, others may have labels. With ``names``, labels are these names, or, if integers,
    positions in this list. Without, the names are the sorted labels in training, or column numbers.
    If the labels in training are text, integers in other parts are read as text.

    Samples whose label is negative, not in ``names``, or not in training, and rows that are not
    probability vectors or votes are added to the bad samples. Their targets are undefined.

    From class probabilities, one label per sample is drawn, the same for every seed, for stratified
    splits and for metrics. The expected value of a metric over such draws is its value for true
    labels.

    Raises:
        ValueError: The types, or the numbers of classes or labels, differ; there is only one class;
            or a label is present in all or in no training samples.
    """
    if any(part.dtype.kind == "b" for part in values):
        return _several(values, names, bad)
    if soft := [part for part in values if part.ndim == 2]:
        return _soft(values, names or tuple(str(k) for k in range(soft[0].shape[1])), bad)
    return _single(values, names, bad)


def _single(values: Sequence[Values], names: Names, bad: Sequence[BadSamples]) -> Indexed:
    train, where = values[0], bad[0].where(0)
    least = -1 if names is None and _are_signs(train[bad[0].good()]) else 0
    parts = [
        part.astype(np.str_) if (train.dtype.kind, part.dtype.kind) == ("U", "i") else part
        for part in values
    ]
    for part, faults in zip(parts, bad, strict=True):
        if part.dtype.kind != train.dtype.kind:
            raise ValueError(f"{faults.where(0)}: labels are not of the same type as in training")
        _check(part, faults, names, least)
    known = np.unique(train[bad[0].good()])
    if len(known) < 2:
        bad[0].raise_first()
        raise ValueError(f"{where}: all training labels are {known[0]}; two classes are needed")
    shown = few(known, 20)
    for part, faults in zip(parts, bad, strict=True):
        _refuse(part, ~np.isin(part, known), f"does not occur in training; known: {shown}", faults)
    if names is None:
        found = [Targets(np.searchsorted(known, part)) for part in parts]
        return found, tuple(str(value) for value in known)
    return [Targets(_places(names, part)) for part in parts], names


def _soft(values: Sequence[Values], names: tuple[str, ...], bad: Sequence[BadSamples]) -> Indexed:
    found = []
    for part, faults in zip(values, bad, strict=True):
        if part.ndim == 1:
            _check(part, faults, names)
            found.append(Targets(_places(names, part)))
        elif part.shape[1] != len(names) or len(names) < 2:
            raise ValueError(
                f"{bad[0].where(0)}: there are {part.shape[1]} probabilities of "
                f"{len(names)} classes; each class needs one, and two classes are needed"
            )
        else:
            found.append(_drawn(_probabilities(part, faults)))
    return found, names


def _several(values: Sequence[Values], names: Names, bad: Sequence[BadSamples]) -> Indexed:
    train, count = values[0], values[0].shape[-1]
    names = names or tuple(str(k) for k in range(count))
    for part, faults in zip(values, bad, strict=True):
        if part.dtype != train.dtype or part.shape[1:] != train.shape[1:] or count < 2:
            raise ValueError(
                f"{faults.where(0)}: labels are of shape {part.shape}, those of training of shape "
                f"{train.shape}; several labels are (N, L) truth values, L of at least 2, in both"
            )
    there = train[bad[0].good()]
    if constant := [name for name, each in zip(names, there.T, strict=True) if len({*each}) < 2]:
        bad[0].raise_first()
        raise ValueError(
            f"{bad[0].where(0)}: {', '.join(constant)} is the same in all training samples, so "
            "nothing can be learned; leave it out"
        )
    return [Targets(part.astype(np.int64)) for part in values], names


def _are_signs(values: Values) -> bool:
    """Whether labels are -1 and 1; beside other numbers, -1 often marks unknown labels."""
    return values.dtype.kind == "i" and set(np.unique(values).tolist()) == {-1, 1}


def _check(values: Values, bad: BadSamples, names: Names, least: int = 0) -> None:
    """Adds samples whose label cannot be one of the names, if they are known."""
    if values.dtype.kind == "i":
        wrong = (values < least) | (values >= (np.inf if names is None else len(names)))
        top = "" if names is None else f" and below {len(names)}, the number of classes"
        rule = f"must be at least 0{top}"
    elif names is not None:
        wrong = ~np.isin(values, names)
        rule = f"is not among the class names: {few(names, 20)}"
    else:
        return
    _refuse(values, wrong, rule, bad)


def _refuse(values: Values, wrong: npt.NDArray[np.bool_], rule: str, bad: BadSamples) -> None:
    bad.add_each(wrong, lambda row: f"label {values[row]} {rule}")


def _places(names: tuple[str, ...], values: Values) -> Labels:
    """Indices (N,) of labels among class names; undefined if they are not among these."""
    if values.dtype.kind == "i":
        return values
    order = np.argsort(names)
    place = np.searchsorted(names, values, sorter=order)
    found: Labels = order[np.minimum(place, len(names) - 1)]
    return found


def check_weights(raw: Any, part: str, bad: BadSamples) -> Floats:
    """Sample weights (N,); samples with an invalid weight are added to the bad samples.

    Raises ``TypeError`` unless they are N numbers, ``ValueError`` if all are 0.
    """
    weights = without_mask(raw, f"{part}: weights")
    if weights.dtype.kind not in "biuf":
        raise TypeError(f"{part}: weights must be numbers, not {weights.dtype}")
    if weights.shape != (bad.count,):
        raise ValueError(
            f"{part}: there are {bad.count} samples, and weights of shape {weights.shape}"
        )
    weights = weights.astype(np.float32)
    wrong = ~(np.isfinite(weights) & (weights >= 0))
    allowed = "allowed: numbers of at least 0"
    bad.add_each(wrong, lambda row: f"weight {weights[row]} is not allowed; {allowed}")
    if not (weights[~wrong] > 0).any():
        raise ValueError(f"{part}: all weights are zero")
    return weights


def _probabilities(raw: Values, bad: BadSamples) -> Floats:
    shares, wrong = as_shares(raw)

    def fault(row: int) -> str:
        shown = few([f"{value:g}" for value in raw[row]])
        rule = "must be at least 0 and sum to 1; their sum is"
        return f"class probabilities {shown} {rule} {sum(raw[row].tolist()):g}"

    bad.add_each(wrong, fault)
    return shares.astype(np.float32)


def _drawn(soft: Floats) -> Targets:
    edges = np.cumsum(soft, 1, dtype=np.float64)
    edges /= edges[:, -1:]  # exactly 1 from the last possible class on
    chance = np.random.default_rng(0).random((len(soft), 1))
    return Targets((edges[:, :-1] <= chance).sum(1), soft)
