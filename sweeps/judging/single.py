"""Files with one score per sample: of class 1 of two, or of the predicted class."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeGuard

import numpy as np
import numpy.typing as npt

from sweeps.errors import UserError
from sweeps.judging import names
from sweeps.judging.classes import canonical, places, texts
from sweeps.judging.scores import Scores, families, family, only
from sweeps.judging.tables import Asked, Table

Array = npt.NDArray[Any]

_OTHER = {"1": "0", "0": "1"}
_MOST_CLASSES = 10_000  # a predicted class has a probability of at least one over their number


def single_score(table: Table, label: str, labels: Array, asked: Asked) -> Scores:
    """The only score of each sample.

    It belongs to the class in its name, ``prob_1``; without one to the predicted class, if the file
    has predictions and the values allow it, or else to class 1 of classes 0 and 1.

    Raises:
        UserError: There is no score, or its meaning is not certain.
    """
    if labels.ndim > 1:
        raise UserError(
            f"{table.path}: {label} has shape {labels.shape}, but scores of all classes are "
            "missing; needed: `probs`, `logits`, or a column for each class"
        )
    predicted = asked.predicted or _predicted_column(table, label)
    decided = asked.scores or asked.confidence
    of_class = [] if decided else _of_one_class(table, labels, asked.logits)
    confidence = asked.confidence
    if predicted and not decided:
        confidence = next(iter(table.called(names.CONFIDENCES)), None)
    if of_class:
        return only(table, of_class)
    column = confidence or next(iter(asked.scores or _unnamed(table, label, predicted)), None)
    if column is None:
        raise UserError(
            f"{table.path}: holds no probabilities or logits (it has "
            f"{names.shortened(table.names)}); needed: `probs` or `logits`, a column for each "
            "class such as prob_0, prob_1 or logit_0, one score per sample such as y_prob or "
            f"confidence, or --scores NAME,NAME,…{_hint(table, label, labels)}"
        )
    values = table.figures(column)
    logits = asked.logits or names.means_logits(column)
    shares = not logits and values.size > 0 and values.min() >= 0 and values.max() <= 1
    if confidence or (predicted and shares and not asked.scores):
        if predicted is None:
            raise UserError(
                f"{table.path}: {column} is the confidence of predictions that are missing; "
                "needed: a column predicted, or --predicted NAME"
            )
        classes = texts(table.column(predicted))
        if confidence or _is_confidence(table, column, values, predicted, classes, labels):
            return _top_label(table, column, values, predicted, classes, labels)
    if not _binary(texts(labels)):
        raise UserError(
            f"{table.path}: {column} is one score per sample, but of which class? Labels are not 0 "
            f"and 1: call it prob_ and the name of the class, or give --predicted NAME"
        )
    return Scores((column,), values, logits)


def _hint(table: Table, label: str, labels: Array) -> str:
    """What to do if columns are called as the classes, but are not probabilities."""
    own = places(
        np.unique(texts(labels)).tolist(), [each for each in table.visible if each != label]
    )
    if not own:
        return ""
    shown = names.shortened([each for each in table.visible if each != label], 4)
    return f". Some of {shown} are called as the classes: --logits, if they are logits"


def _predicted_column(table: Table, label: str) -> str | None:
    own = (
        *names.PREDICTED,
        *(each for each in names.LABELS if names.has_name(label, names.TRUE_LABELS)),
    )
    for name in table.called(own):
        if name != label and _are_classes(table.column(name)):
            return name
    return None


def _are_classes(values: Array) -> bool:
    if values.ndim != 1:
        return False
    return values.dtype.kind != "f" or bool((values == np.round(values)).all())


def _of_one_class(table: Table, labels: Array, logits: bool) -> list[Scores]:
    """Scores of a class that the column names: ``prob_1``, ``p(cat)``."""
    words = np.unique(texts(labels)).tolist() if labels.ndim == 1 else []
    found = []
    kinds = (*names.PROBS_OR_LOGITS, *names.SCORES)
    every = [family(table, kind, members) for kind, members in families(table, kinds).items()]
    for each in (each for each in every if len(each.columns) == 1):
        [name], values = each.classes, each.values[:, 0]
        others = [word for word in words if places([word], (name,)) is None]
        if len(others) > 1:
            continue
        other = others[0] if others else _OTHER.get(canonical(name), f"not {name}")
        is_logits = logits or each.logits or (each.logits is None and values.min() < 0)
        pair = [0 * values if is_logits else 1 - values, values]
        order = (1, 0) if canonical(name) == "0" else (0, 1)
        found.append(
            Scores(
                each.columns,
                np.stack([pair[place] for place in order], axis=1),
                bool(is_logits),
                tuple((other, name)[place] for place in order),
                named=True,
                what=f"{'logits' if is_logits else 'probabilities'} of class {name} of 2",
            )
        )
    return found


def _unnamed(table: Table, label: str, predicted: str | None) -> Sequence[str]:
    """The column of one score, whose name does not say of which class; empty without any."""
    for kinds in ((*names.LOGITS, *names.PROBS), names.SCORES):
        found = [
            Scores((name,), values.reshape(-1), bool(names.means_logits(name)))
            for name in table.called(kinds)
            if name not in (label, predicted) and _is_score(values := table.numbers(name), name)
        ]
        if found:
            return only(table, found).columns
    return []


def _is_score(values: Array | None, name: str) -> TypeGuard[Array]:
    if values is None or values.shape[1:] not in ((), (1,)):
        return False
    return not (names.has_name(name, names.PREDICTED) and _are_classes(values))


def _binary(words: Array) -> bool:
    return {canonical(each) for each in np.unique(words).tolist()} <= {"-1", "0", "1"}


def _is_confidence(
    table: Table, column: str, values: Array, predicted: str, classes: Array, labels: Array
) -> bool:
    """Whether one score is that of the predicted class, not of class 1: from what is possible."""
    words = np.concatenate([classes, texts(labels)])
    unlike = {canonical(each) for each in np.unique(words).tolist()}
    of_prediction = values.min() >= 0.5 or len(unlike) > 2
    of_class_1 = _binary(words) and _follows(values, classes)
    if of_class_1 == of_prediction:
        if of_class_1:
            return False  # all are predicted as class 1, so both mean the same
        raise UserError(
            f"{table.path}: {column} may be the probability of class 1 (--scores {column}) or of "
            f"the class in {predicted} (--confidence {column}), but {predicted} is not the more "
            "likely class of either; say which"
        )
    return bool(of_prediction)


def _follows(values: Array, classes: Array) -> bool:
    """Whether class 1 is predicted where its probability is above 1/2."""
    ones = np.array([canonical(each) == "1" for each in classes.tolist()])
    return bool(((values >= 0.5) | ~ones).all() and ((values <= 0.5) | ones).all())


def _top_label(
    table: Table, column: str, values: Array, predicted: str, classes: Array, labels: Array
) -> Scores:
    """Scores whose largest is that of the predicted class; the others share the rest equally."""
    values = values.astype(np.float64)
    least = float(values.min(initial=1.0))
    if not (least > 1 / _MOST_CLASSES and float(values.max(initial=0.0)) <= 1):
        raise UserError(
            f"{table.path}: {column} runs from {least:.4g} to {values.max():.4g}; the probability "
            "of a predicted class is above 0 and at most 1"
        )
    guesses, true = np.unique(classes).tolist(), np.unique(texts(labels)).tolist()
    if not {*map(canonical, guesses)} & {*map(canonical, true)}:
        raise UserError(
            f"{table.path}: predictions in {predicted} are {names.shortened(guesses, 4)}, labels "
            f"are {names.shortened(true, 4)}: no class is in both. Write both alike, or name "
            "another column of labels: --label NAME"
        )
    words = [*{*guesses, *true}]
    if len({canonical(each) for each in words}) < len(words):  # 3 and 3.0
        classes = np.array([canonical(each) for each in classes.tolist()])
        words = [*{canonical(each) for each in words}]
    words = sorted(words, key=lambda each: (len(each), each) if each.isdecimal() else (0, each))
    number = max(2, len(words), int(1 / least) + 1)  # so that the predicted class is the largest
    table_of = np.repeat(((1 - values) / (number - 1))[:, None], number, axis=1)
    place = {word: index for index, word in enumerate(words)}
    table_of[np.arange(len(values)), [place[each] for each in classes.tolist()]] = values
    others = [f"other {index + 1}" for index in range(number - len(words))]
    return Scores(
        (column,),
        table_of,
        False,
        (*words, *others),
        named=True,
        beside=(predicted,),
        what=f"probabilities of the predicted class, in {predicted},",
        top_label_only=True,
    )
