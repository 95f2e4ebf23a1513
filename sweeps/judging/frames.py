"""Data frames of pandas and Polars as predictions."""

from __future__ import annotations

from typing import Any

import numpy as np

from sweeps.errors import UserError
from sweeps.judging.names import kind_and_class
from trainables.data.readers.index_columns import index_columns


def frame_classes(scores: Any) -> tuple[str, ...]:
    """Names of the classes from the columns of a data frame; empty for anything else.

    Raises:
        UserError: A column has the name of an index, so it holds no scores.
    """
    if not hasattr(scores, "columns") or not hasattr(scores, "to_numpy"):
        return ()
    columns = tuple(map(str, scores.columns))
    if indexes := index_columns(columns):
        raise UserError(f"column {indexes[0]!r} numbers the rows and holds no scores: drop it")
    parts = [kind_and_class(each) for each in columns]
    alike = len({part[0] for part in parts if part}) == 1
    return tuple(part[1] for part in parts if part) if alike and all(parts) else columns


def in_one_order(name: str, scores: Any, labels: Any) -> None:
    """Check that pandas' indexes of scores and labels do not contradict their order.

    Raises:
        UserError: They are the same rows in another order.
    """
    ours, theirs = (
        getattr(getattr(each, "index", None), "values", None) for each in (scores, labels)
    )
    if ours is None or theirs is None or np.shape(ours) != np.shape(theirs):
        return
    if (ours != theirs).any() and {*ours.tolist()} == {*theirs.tolist()}:
        raise UserError(
            f"{name}: predictions and labels have the same index in another order; pass "
            "labels.loc[predictions.index]"
        )
