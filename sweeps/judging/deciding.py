"""Decides among the readings of a file: those that the values contradict are not used."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import expit, softmax

from sweeps.errors import UserError
from sweeps.judging import names
from sweeps.judging.classes import canonical, places, texts
from sweeps.judging.inputs import Scores, are_probabilities
from sweeps.judging.long_format import long_format
from sweeps.judging.proposals import Objection, Proposal, Reading, Source
from sweeps.judging.scores import affixed_classes, all_classes, called_as_classes
from sweeps.judging.single import OF_ONE_SCORE, single_of, without_single
from sweeps.judging.tables import Asked

Array = npt.NDArray[Any]

_SAME = 1e-2  # largest difference of two readings that agree; files often have two decimals


def decided(sources: Sequence[Source], asked: Asked) -> Reading:
    """The reading that the names propose and the values allow.

    Kinds of readings are tried in the order of how much they say. The sources are the same file
    with labels from different columns.

    Raises:
        UserError: No reading is left, or two that differ.
    """
    objections: list[str] = []
    for proposed in _proposed(sources, asked):
        if left := [each for each in proposed if isinstance(each, Reading)]:
            return _only(left)
        objections += [each.reason for each in proposed if isinstance(each, Objection)]
    if not objections:
        raise without_single(sources[0], asked)
    raise UserError(f"{sources[0].table.path}: {'; '.join(dict.fromkeys(objections))}")


_OF_ALL_CLASSES: tuple[Callable[[Source, Asked], Iterator[Proposal]], ...] = (
    partial(all_classes, kinds=names.PROBS_OR_LOGITS),
    partial(all_classes, kinds=names.SCORES),
    called_as_classes,
    affixed_classes,
)


def _proposed(sources: Sequence[Source], asked: Asked) -> Iterator[list[Proposal]]:
    """The readings of each kind."""
    for proposals in (long_format, *(() if asked.confidence else _OF_ALL_CLASSES)):
        yield [each for source in sources for each in proposals(source, asked)]
    singles = [single_of(each, asked) for each in sources if each.labels.values.ndim == 1]
    for of_single in OF_ONE_SCORE:
        yield [each for single in singles for each in of_single(single)]


def _only(left: Sequence[Reading]) -> Reading:
    """The reading with which all agree; logits have more digits than probabilities.

    Scores of all classes say more than those of the predicted one.
    """
    path = left[0].source.table.path
    unlike = _unlike_labels(left)
    if len(unlike) > 1:
        both = " and ".join(each.source.labels.origin for each in unlike)
        raise UserError(
            f"{path}: {both} differ, and each could be the true labels; say which: `label=NAME`"
        )
    left = [each for each in left if each.source.labels.origin == unlike[0].source.labels.origin]
    whole = [each for each in left if not each.scores.top_label_only] or left
    first = next((each for each in left if each.scores.logits), whole[0])
    for other in left:
        if other is not first and not _agree(first.scores, other.scores):
            options = " or ".join(dict.fromkeys((first.option, other.option)))
            raise UserError(
                f"{path}: {first.meaning} and {other.meaning} differ, and each could be the "
                f"scores; say which: {options}"
            )
    return first


def _unlike_labels(left: Sequence[Reading]) -> list[Reading]:
    """One reading for each column of labels; not the model's own prediction, if there are more."""
    unlike: list[Reading] = []
    for each in left:
        if not any(_same(each.source.labels.values, a.source.labels.values) for a in unlike):
            unlike.append(each)
    true = [each for each in unlike if not _same(each.source.labels.values, _guesses(each))]
    return unlike if len(unlike) == 1 or not true else true


def _guesses(reading: Reading) -> Array:
    values: Array = reading.scores.values
    classes = reading.scores.classes
    winners: Array = values.argmax(axis=1) if values.ndim > 1 else np.array([])
    return np.asarray(np.array(classes)[winners] if values.ndim > 1 and classes else winners)


def _same(one: Array, other: Array) -> bool:
    """Whether two columns of labels mean the same in each row."""
    if one.ndim > 1 or one.shape != other.shape:
        return bool(np.array_equal(one, other))
    pairs = {*zip(texts(one).tolist(), texts(other).tolist(), strict=True)}
    return all(canonical(a) == canonical(b) for a, b in pairs)


def _agree(one: Scores, other: Scores) -> bool:
    if (one.top_label_only or other.top_label_only) and one.classes and other.classes:
        first, second = _as_probabilities(one), _as_probabilities(other)
        pairs = zip(first.argmax(axis=1), second.argmax(axis=1), strict=True)
        alike = {*pairs} if len(first) == len(second) else set()
        same = all(canonical(one.classes[a]) == canonical(other.classes[b]) for a, b in alike)
        return same and bool(np.abs(first.max(axis=1) - second.max(axis=1)).max() <= _SAME)
    if one.values.shape != other.values.shape:
        return False
    values = _as_probabilities(other)
    if one.classes and other.classes:
        if (order := places(one.classes, other.classes)) is None:
            return False
        values = values[:, list(order.values())]
    return bool(np.abs(_as_probabilities(one) - values).max(initial=0) <= _SAME)


def _as_probabilities(scores: Scores) -> Array:
    values: Array = scores.values.astype(np.float64)
    if values.ndim == 1:
        return np.asarray(expit(values)) if scores.logits else values
    if scores.logits or (scores.logits is None and not are_probabilities(values)):
        return np.asarray(softmax(values, axis=1))
    return values
