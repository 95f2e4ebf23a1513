"""From label values as users store them to indices 0..K-1."""

from collections.abc import Callable
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
        names: Class names; integer labels then are positions among them. ``None`` takes the
            labels that occur in training, sorted, as the classes.
        where_train: Names a sample, for messages.
        where_test: Likewise.

    Returns:
        Indices (N,) and (M,), and class names.

    Raises:
        ValueError: A label is negative or beyond ``names``; a test label does not occur in
            training; the two kinds differ; there is one class only.
    """
    if train.dtype.kind != test.dtype.kind:
        raise ValueError(f"{where_test(0)}: labels are not of the same type as in training")
    known = np.unique(train)
    if train.dtype.kind == "i":
        for values, where in ((train, where_train), (test, where_test)):
            _check_range(values, names, where)
    if len(known) < 2:
        raise ValueError(f"{where_train(0)}: all training labels are {known[0]}; two are needed")
    unknown = ~np.isin(test, known)
    if unknown.any():
        row = int(unknown.argmax())
        raise ValueError(
            f"{where_test(row)}: label {test[row]} does not occur in training; known: {_few(known)}"
        )
    if train.dtype.kind == "i" and names is not None:
        return train.astype(np.int64), test.astype(np.int64), names
    classes = tuple(str(value) for value in known)
    return np.searchsorted(known, train), np.searchsorted(known, test), classes


def _check_range(
    values: Values, names: tuple[str, ...] | None, where: Callable[[int], str]
) -> None:
    wrong = values < 0 if names is None else (values < 0) | (values >= len(names))
    if wrong.any():
        row = int(wrong.argmax())
        allowed = "at least 0" if names is None else f"0 to {len(names) - 1}, one for each class"
        raise ValueError(f"{where(row)}: label {values[row]} must be {allowed}")


def _few(known: Values) -> str:
    shown = ", ".join(str(value) for value in known[:20])
    return shown + (", ..." if len(known) > 20 else "")
