"""Predictions to judge, and checks for common mistakes in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from sweeps.errors import UserError

Array = npt.NDArray[Any]
_TOLERANCE = 1e-2  # tolerance of a row's sum, because files often have two or three decimals
_FEWEST = 2


@dataclass(frozen=True)
class Predicted:
    """The predictions of one model.

    Attributes:
        logits: (N, K) float; logarithms of the probabilities if no logits were given.
        probs: (N, K) float, each row sums to one.
        labels: (N,) int64.
        classes: Names of the classes, K of them.
        groups: The group of each sample, N of them; None without groups.
    """

    name: str
    logits: Tensor
    probs: Tensor
    labels: Tensor
    classes: tuple[str, ...]
    groups: Array | None = None


def check_predicted(
    name: str,
    scores: Any,
    labels: Any,
    *,
    logits: bool | None = False,
    classes: Sequence[str] = (),
    groups: Any = None,
) -> Predicted:
    """Check the predictions of a model and convert them.

    Args:
        name: Name of the model in messages and tables.
        scores: Probabilities or logits, (N, K); or (N,), the probability of class 1 of two.
        labels: True classes, (N,): integers from 0, or class names if ``classes`` is given.
        logits: Whether the scores are logits; None infers it from the values.
        classes: Class names, if known.
        groups: The group of each sample, (N,), if any.

    Raises:
        UserError: Scores or labels are not as above. The message says what is wrong and what to do.
    """
    table = _floats(name, scores)
    if table.ndim == 1 and not logits:
        table = np.stack([1 - table, table], axis=1)
    if table.ndim != 2 or table.shape[1] < 2:
        raise UserError(
            f"{name}: predictions have shape {table.shape}; allowed: (N, K) with K of at least 2, "
            "or (N,), probabilities of class 1"
        )
    count, num_classes = table.shape
    if count < _FEWEST:
        raise UserError(f"{name}: has {count} samples; at least {_FEWEST} are needed")
    names = tuple(map(str, classes)) or tuple(map(str, range(num_classes)))
    if len(names) != num_classes:
        raise UserError(f"{name}: {len(names)} names for {num_classes} classes")
    targets = _labels(name, labels, count, names)
    if groups is not None and len(groups := np.asarray(groups).astype(str)) != count:
        raise UserError(f"{name}: {len(groups)} groups for {count} samples; one each is needed")
    if logits is None:
        logits = not _are_probabilities(table)
        if logits and table.min() >= 0:
            _check_probabilities(name, table)  # more likely these are faulty probabilities
    if logits:
        if _are_probabilities(table):
            raise UserError(
                f"{name}: these logits look like probabilities (each row sums to one); pass them "
                "as probabilities"
            )
        scaled = torch.from_numpy(table)
        return Predicted(name, scaled, scaled.softmax(dim=1), targets, names, groups)
    _check_probabilities(name, table)
    probs = torch.from_numpy(np.clip(table, 0, None))
    probs /= probs.sum(dim=1, keepdim=True)
    tiny = torch.finfo(probs.dtype).tiny  # a probability of 0 has no logarithm
    return Predicted(name, probs.clamp(min=tiny).log(), probs, targets, names, groups)


def _floats(name: str, scores: Any) -> Array:
    if isinstance(scores, Tensor):
        scores = scores.detach().cpu()
        scores = (scores.float() if scores.dtype == torch.bfloat16 else scores).numpy()
    try:
        table = np.asarray(scores)
        table = table.astype(np.float64 if table.dtype == np.float64 else np.float32, copy=False)
    except (TypeError, ValueError):
        raise UserError(f"{name}: predictions must be numbers, of one length in each row") from None
    if table.size and not np.isfinite([table.min(), table.max()]).all():
        bad = ~np.isfinite(table).reshape(len(table), -1).all(axis=1)
        raise UserError(
            f"{name}: row {int(bad.argmax())} (from 0) of the predictions has NaN or infinity, "
            f"as {int(bad.sum())} rows have"
        )
    return np.require(table, requirements=("C", "W"))  # as tensors need it


def _labels(name: str, labels: Any, count: int, classes: Sequence[str]) -> Tensor:
    if isinstance(labels, Tensor):
        labels = labels.detach().cpu().numpy()
    values = np.asarray(labels)
    if values.shape != (count,):
        raise UserError(
            f"{name}: labels have shape {values.shape}; ({count},) is needed, one for each row of "
            "the predictions"
        )
    if values.dtype.kind in "OUS":
        values = _indices_of_names(name, values, classes)
    if values.dtype.kind == "f" and np.all(values == np.floor(values)):
        values = values.astype(np.int64)
    if values.dtype.kind not in "iub":
        raise UserError(f"{name}: labels must be integers or names of classes, not {values.dtype}")
    low, high = int(values.min()), int(values.max())
    last = len(classes) - 1
    if low >= 1 and high == last + 1:
        raise UserError(
            f"{name}: labels run from {low} to {high}, but {last + 1} classes are numbered from 0 "
            f"to {last}: subtract 1"
        )
    if low < 0 or high > last:
        raise UserError(
            f"{name}: labels run from {low} to {high}; allowed: 0 to {last}, for {last + 1} columns"
        )
    return torch.from_numpy(values.astype(np.int64))


def _indices_of_names(name: str, values: Array, classes: Sequence[str]) -> Array:
    words = values.astype(str)
    place = {each: index for index, each in enumerate(classes)}
    unknown = sorted(set(words.tolist()) - set(place))
    if unknown:
        raise UserError(
            f"{name}: label {unknown[0]!r} is not a class; the classes are "
            f"{', '.join(classes[:10])}{' …' if len(classes) > 10 else ''}"
        )
    return np.array([place[word] for word in words], dtype=np.int64)


def _are_probabilities(table: Array) -> bool:
    return bool(table.min() >= 0 and np.abs(table.sum(axis=1) - 1).max() <= _TOLERANCE)


def _check_probabilities(name: str, table: Array) -> None:
    low, high, sums = float(table.min()), float(table.max()), table.sum(axis=1)
    if low >= 0 and high > 1 and np.abs(sums - 100).max() <= 100 * _TOLERANCE:
        raise UserError(f"{name}: each row sums to 100: these are percent; divide by 100")
    if low < -1e-5 or high > 1 + 1e-5:
        raise UserError(
            f"{name}: values run from {low:.4g} to {high:.4g}; probabilities lie between 0 and 1. "
            "If these are logits, say so: a key or column `logits`, the option --logits, or "
            "judge(..., logits=True)"
        )
    worst = int(np.abs(sums - 1).argmax())
    if abs(float(sums[worst]) - 1) > _TOLERANCE:
        raise UserError(
            f"{name}: row {worst} (from 0) sums to {float(sums[worst]):.4g}; the probabilities of "
            "a sample sum to 1"
        )
