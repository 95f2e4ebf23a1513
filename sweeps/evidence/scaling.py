"""Predictions on the validation split after temperatures that are fitted once."""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from trainables.contract.config import Criterion
from trainables.files.rows import Rows

if TYPE_CHECKING:
    from torch import Tensor

_fitted: WeakKeyDictionary[Rows, dict[Criterion, Tensor]] = WeakKeyDictionary()


def cross_scaled(rows: Rows, criterion: Criterion = "nll") -> Tensor:
    """The logits (N, K), float64, divided by cross-fitted temperatures.

    See :func:`~trainables.posthoc.cross_fitted_temperatures`.
    """
    from trainables.posthoc import cross_fitted_temperatures

    logits, labels = double_tensors(rows)
    known = _fitted.setdefault(rows, {})
    if criterion not in known:
        known[criterion] = cross_fitted_temperatures(logits, labels, criterion, rows.clusters())
    return logits / known[criterion]


def double_tensors(rows: Rows) -> tuple[Tensor, Tensor]:
    """The logits (N, K), float64, and the labels (N,)."""
    logits, labels = rows.tensors()
    return logits.double(), labels
