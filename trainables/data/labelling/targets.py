"""Targets of samples: classes, class probabilities, weights."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from trainables.data.core.bad_samples import BadSamples
from trainables.data.core.base import Targets
from trainables.data.labelling.labels import Values, index_labels, place_among
from trainables.plugins.arguments import few

Floats: TypeAlias = npt.NDArray[np.float32]

_TOLERANCE = 1e-3  # tolerance of the sum of a row, as in the metrics


def index_targets(
    train: Values, test: Values, names: tuple[str, ...] | None, bad: tuple[BadSamples, BadSamples]
) -> tuple[Targets, Targets, tuple[str, ...]]:
    """Converts labels or class probabilities, as users store them, to targets, with the names.

    Labels are (N,), integers from 0 or strings; class probabilities (N, K), floats; or multi-label
    indicators (N, L), booleans. If ``train`` has probabilities, ``test`` may have labels. Without
    ``names``, they are the labels in training, or column numbers. Bad samples are treated as in
    :func:`~trainables.data.labelling.labels.index_labels`; rows that are not probability vectors
    are added.

    From class probabilities, one label per sample is drawn, the same for every seed, for stratified
    splits and for metrics. The expected value of a metric over such draws is its value for true
    labels.

    Raises:
        ValueError: The number of classes or labels differs, a label is present in all or in no
            training samples, or a reason of ``index_labels``.
    """
    if "b" in (train.dtype.kind, test.dtype.kind):
        return _several(train, test, names, bad)
    soft = [part for part in (train, test) if part.ndim == 2]
    if not soft:
        train_labels, test_labels, known = index_labels(train, test, names, bad)
        return Targets(train_labels), Targets(test_labels), known
    if names is None:
        names = tuple(str(k) for k in range(soft[0].shape[1]))
    for part in soft:
        if part.shape[1] != len(names) or len(names) < 2:
            raise ValueError(
                f"{bad[0].where(0)}: there are {part.shape[1]} probabilities of "
                f"{len(names)} classes; each class needs one, and two classes are needed"
            )
    found = []
    for part, faults in zip((train, test), bad, strict=True):
        if part.ndim == 1:
            found.append(Targets(place_among(names, part, faults)))
        else:
            found.append(_drawn(_probabilities(part, faults)))
    return found[0], found[1], names


def index_parts(
    values: list[Values], names: tuple[str, ...] | None, bad: list[BadSamples]
) -> tuple[list[Targets], tuple[str, ...]]:
    """The targets of each part, the first of which is for training, with the names of the classes.

    For arguments and errors see :func:`index_targets`.
    """

    def indexed(part: int) -> tuple[Targets, Targets, tuple[str, ...]]:
        return index_targets(values[0], values[part], names, (bad[0], bad[part]))

    train, _, classes = indexed(0)
    return [train, *(indexed(part)[1] for part in range(1, len(values)))], classes


def _several(
    train: Values, test: Values, names: tuple[str, ...] | None, bad: tuple[BadSamples, BadSamples]
) -> tuple[Targets, Targets, tuple[str, ...]]:
    count = train.shape[-1]
    names = names or tuple(str(k) for k in range(count))
    if train.dtype != test.dtype or train.shape[1:] != test.shape[1:] or count < 2:
        raise ValueError(
            f"{bad[1].where(0)}: labels are of shape {test.shape}, those of training of shape "
            f"{train.shape}; several labels are (N, L) truth values, L of at least 2, in both"
        )
    there = train[bad[0].good()]
    constant = [name for name, column in zip(names, there.T, strict=True) if len({*column}) < 2]
    if constant and bad[0].faults:
        row = min(bad[0].faults)
        raise ValueError(f"{bad[0].where(row)}: {bad[0].faults[row]}")
    if constant:
        raise ValueError(
            f"{bad[0].where(0)}: {', '.join(constant)} is the same in all training samples, so "
            "nothing can be learned; leave it out"
        )
    return Targets(train.astype(np.int64)), Targets(test.astype(np.int64)), names


def check_weights(raw: Any, part: str, bad: BadSamples) -> Floats:
    """Sample weights (N,); samples with an invalid weight are added to the bad samples.

    Raises ``TypeError`` unless they are N numbers, ``ValueError`` if all are 0.
    """
    weights = np.asarray(raw)
    if weights.dtype.kind not in "biuf":
        raise TypeError(f"{part}: weights must be numbers, not {weights.dtype}")
    if weights.shape != (bad.count,):
        raise ValueError(
            f"{part}: there are {bad.count} samples, and weights of shape {weights.shape}"
        )
    weights = weights.astype(np.float32)
    wrong = ~(np.isfinite(weights) & (weights >= 0))
    for row in np.flatnonzero(wrong).tolist():
        bad.add(row, f"weight {weights[row]} is not allowed; allowed: numbers of at least 0")
    if not (weights[~wrong] > 0).any():
        raise ValueError(f"{part}: all weights are zero")
    return weights


def _probabilities(raw: Values, bad: BadSamples) -> Floats:
    totals = raw.sum(1, dtype=np.float64)
    with np.errstate(invalid="ignore"):
        wrong = ~((raw >= 0).all(1) & (np.abs(totals - 1) <= _TOLERANCE))
    for row in np.flatnonzero(wrong).tolist():
        shown = few([f"{value:g}" for value in raw[row]])
        bad.add(
            row,
            f"class probabilities {shown} must be at least 0 and sum to 1; their sum is "
            f"{totals[row]:g}",
        )
    share = 1 / raw.shape[1]  # placeholder in undefined rows
    return np.where(wrong[:, None], share, raw / np.where(wrong, 1, totals)[:, None]).astype(
        np.float32
    )


def _drawn(soft: Floats) -> Targets:
    edges = np.cumsum(soft, 1, dtype=np.float64)
    edges /= edges[:, -1:]  # exactly 1 from the last possible class on
    chance = np.random.default_rng(0).random((len(soft), 1))
    return Targets((edges[:, :-1] <= chance).sum(1), soft)
