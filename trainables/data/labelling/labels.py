"""Converts labels, as users store them, to class indices 0..K-1."""

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from trainables.data.core.bad_samples import BadSamples
from trainables.data.core.types import Labels
from trainables.plugins.arguments import few

Values: TypeAlias = npt.NDArray[Any]
"""Labels as stored: int64 or fixed-width strings."""


def index_labels(
    train: Values, test: Values, names: tuple[str, ...] | None, bad: tuple[BadSamples, BadSamples]
) -> tuple[Labels, Labels, tuple[str, ...]]:
    """Converts labels (N,) and (M,), integers from 0 or strings, to indices, with class names.

    With ``names``, labels are these names, or, if integers, positions in this list. None uses the
    sorted labels that occur in training as the classes. If they are text, integers in ``test`` are
    read as text. Samples whose label is negative, not in
    ``names`` or, in ``test``, not in training are added to the bad samples. The labels of bad
    samples are ignored, and their indices undefined.

    Raises:
        ValueError: The types differ, or there is only one class.
    """
    bad_train, bad_test = bad
    if train.dtype.kind == "U" and test.dtype.kind == "i":
        test = test.astype(np.str_)
    if train.dtype.kind != test.dtype.kind:
        raise ValueError(f"{bad_test.where(0)}: labels are not of the same type as in training")
    numbers = train.dtype.kind == "i"
    for values, of in ((train, bad_train), (test, bad_test)):
        _check(values, of, numbers=numbers, names=names)
    known = np.unique(train[bad_train.good()])
    if len(known) < 2:
        if bad_train.faults:
            row = min(bad_train.faults)
            raise ValueError(f"{bad_train.where(row)}: {bad_train.faults[row]}")
        raise ValueError(
            f"{bad_train.where(0)}: all training labels are {known[0]}; two classes are needed"
        )
    for row in np.flatnonzero(~np.isin(test, known)).tolist():
        bad_test.add(row, f"label {test[row]} does not occur in training; known: {few(known, 20)}")
    if names is None:
        names = tuple(str(value) for value in known)
        return np.searchsorted(known, train), np.searchsorted(known, test), names
    return _places(names, train), _places(names, test), names


def place_among(names: tuple[str, ...], values: Values, bad: BadSamples) -> Labels:
    """Indices (N,) of labels among class names; see :func:`index_labels`."""
    _check(values, bad, numbers=values.dtype.kind == "i", names=names)
    return _places(names, values)


def _places(names: tuple[str, ...], values: Values) -> Labels:
    if values.dtype.kind == "i":
        return values
    order = np.argsort(names)
    place = np.searchsorted(names, values, sorter=order)
    found: Labels = order[np.minimum(place, len(names) - 1)]
    return found


def _check(
    values: Values, bad: BadSamples, *, numbers: bool, names: tuple[str, ...] | None
) -> None:
    if numbers:
        wrong = (values < 0) | (values >= (np.inf if names is None else len(names)))
        top = "" if names is None else f" and below {len(names)}, the number of classes"
        rule = f"must be at least 0{top}"
    elif names is not None:
        wrong = ~np.isin(values, names)
        rule = f"is not among the class names: {few(names, 20)}"
    else:
        return
    for row in np.flatnonzero(wrong).tolist():
        bad.add(row, f"label {values[row]} {rule}")
