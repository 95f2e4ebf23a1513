"""From label values as users store them to indices 0..K-1."""

from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from trainables.data.splits import Labels

Values: TypeAlias = npt.NDArray[Any]
"""Labels as stored: int64 or fixed-width strings."""


def index_labels(
    train: Values,
    test: Values,
    names: tuple[str, ...] | None,
    *,
    where_train: Callable[[int], str],
    where_test: Callable[[int], str],
) -> tuple[Labels, Labels, tuple[str, ...]]:
    """Turns labels into indices of classes.

    Args:
        train: (N,), integers from 0 or strings.
        test: (M,), of the same kind.
        names: Class names; labels are then some of them, or, if integers, positions among them.
            ``None`` takes the labels that occur in training, sorted, as the classes.
        where_train: Names a sample, for messages.
        where_test: Likewise.

    Returns:
        Indices (N,) and (M,), and class names.

    Raises:
        ValueError: A label is negative or not among ``names``; a test label does not occur in
            training; the two kinds differ; there is one class only.
    """
    if train.dtype.kind != test.dtype.kind:
        raise ValueError(f"{where_test(0)}: labels are not of the same type as in training")
    numbers = train.dtype.kind == "i"
    for values, where in ((train, where_train), (test, where_test)):
        _check(values, where, numbers=numbers, names=names)
    known = np.unique(train)
    if len(known) < 2:
        raise ValueError(f"{where_train(0)}: all training labels are {known[0]}; two are needed")
    unknown = ~np.isin(test, known)
    if unknown.any():
        row = int(unknown.argmax())
        raise ValueError(
            f"{where_test(row)}: label {test[row]} does not occur in training; known: {_few(known)}"
        )
    if names is None:
        names = tuple(str(value) for value in known)
        return np.searchsorted(known, train), np.searchsorted(known, test), names
    if numbers:
        return train, test, names
    order = np.argsort(names)
    train_labels, test_labels = (
        order[np.searchsorted(names, values, sorter=order)] for values in (train, test)
    )
    return train_labels, test_labels, names


def _check(
    values: Values, where: Callable[[int], str], *, numbers: bool, names: tuple[str, ...] | None
) -> None:
    if numbers:
        wrong = (values < 0) | (values >= (np.inf if names is None else len(names)))
        top = "" if names is None else f" and below {len(names)}, the number of classes"
        rule = f"must be at least 0{top}"
    elif names is not None:
        wrong = ~np.isin(values, names)
        rule = f"is not among the class names: {_few(names)}"
    else:
        return
    if wrong.any():
        row = int(wrong.argmax())
        raise ValueError(f"{where(row)}: label {values[row]} {rule}")


def _few(known: Iterable[object]) -> str:
    shown = [str(value) for value in islice(known, 21)]
    return ", ".join(shown[:20]) + (", ..." if len(shown) > 20 else "")
