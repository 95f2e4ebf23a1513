"""Files with one row for each sample and class."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from sweeps.errors import UserError
from sweeps.judging import names
from sweeps.judging.classes import canonical, texts
from sweeps.judging.inputs import Scores, are_probabilities
from sweeps.judging.proposals import (
    Labels,
    Proposal,
    Source,
    are_classes,
    is_binary,
    of_all_classes,
)
from sweeps.judging.tables import Asked, Table

Array = npt.NDArray[Any]


def long_format(source: Source, asked: Asked) -> Iterator[Proposal]:
    """Scores of all classes from ``image, class, prob, label``, one row for each class.

    A file is long if every class occurs once in the rows of every sample, with the same label in
    all of them, or a 1 in that of the true class and 0 in the others. Samples have an id, or are
    consecutive rows.
    """
    table, labels = source.table, source.labels
    count = len(labels.words)
    for column in _class_columns(source, asked):
        classes, place = np.unique(texts(table.column(column)), return_inverse=True)
        if len(place) != count or len(classes) < 2 or count % len(classes):
            continue
        if (np.bincount(place) != count // len(classes)).any():
            continue
        found = _samples(source, place, len(classes), (column, labels.origin))
        score = None if found is None else _score(table, asked, (column, labels.origin))
        if found is None or score is None:
            continue
        key, rows = found
        same = bool((labels.words[rows] == labels.words[rows[:, :1]]).all())
        values = table.figures(score)[rows]
        logits = asked.logits or names.means_logits(score)
        if logits or are_probabilities(values):
            note = f"one row for each class in {column}, samples are {key or 'consecutive rows'}"
            scores = Scores(
                values,
                logits,
                tuple(classes.tolist()),
                named=True,
                columns=(score,),
                beside=(column,) if key is None else (column, key),
                what=f"{'logits' if logits else 'probabilities'} of {len(classes)} classes",
            )
            sample = source.taken(rows[:, 0], note)
            if not same:
                true = classes[_ones(labels)[rows].argmax(axis=1)]
                sample = replace(sample, labels=replace(sample.labels, values=true))
            yield of_all_classes(sample, scores, certain=True)
        elif key is not None and same:
            raise UserError(
                f"{table.path}: has one row for each class in {column}, but {score} does not sum "
                f"to one over the rows of a sample; if these are logits: `logits=true`, "
                "otherwise say which column holds the scores: `scores=NAME`"
            )


def _class_columns(source: Source, asked: Asked) -> list[str]:
    roles = (*names.PREDICTED, *names.LABELS, *names.CATEGORIES)
    columns = [asked.predicted] if asked.predicted else source.table.called(roles)
    return [
        each
        for each in dict.fromkeys(columns)
        if each != source.labels.origin and are_classes(source.table.readable(each))
    ]


def _samples(
    source: Source, place: Array, classes: int, used: tuple[str, ...]
) -> tuple[str | None, Array] | None:
    """The column of ids, if there is one, and the rows of samples, (N, K) in order of classes."""
    table, count = source.table, len(place)
    models = _words(table, names.MODEL, count) if names.MODEL in table.names else None
    candidates = [each for each in table.visible if each not in used and each != names.MODEL]
    candidates.sort(key=lambda each: not names.has_name(each, names.IDS))
    for name in (*candidates, None):
        words = np.arange(count) // classes if name is None else _words(table, name, count)
        if words is None:
            continue
        _, sample = np.unique(words, return_inverse=True)
        if models is not None:
            sample = np.unique(models, return_inverse=True)[1] * (sample.max() + 1) + sample
        rows = np.lexsort((place, sample)).reshape(-1, classes)
        if (place[rows] == np.arange(classes)).all() and (
            sample[rows] == sample[rows[:, :1]]
        ).all():
            labels = source.labels.words[rows]
            ones = _ones(source.labels)[rows].sum(axis=1)
            if (labels == labels[:, :1]).all() or (ones == 1).all():
                rows = rows[rows.min(axis=1).argsort()]
                return name, rows
    return None


def _ones(labels: Labels) -> Array:
    """Where labels (N,) are 1 or true, if all are that, 0 or false; else nowhere."""
    ones = [each for each in labels.classes if is_binary(labels) and canonical(each) == "1"]
    return np.isin(labels.words, ones)


def _words(table: Table, name: str, count: int) -> Array | None:
    values = table.readable(name)
    if values is None or values.shape != (count,) or values.dtype.kind == "f":
        return None
    return texts(values)


def _score(table: Table, asked: Asked, used: tuple[str, ...]) -> str | None:
    kinds = (*names.PROBS, *names.LOGITS, *names.SCORES, *names.CONFIDENCES)
    for name in asked.scores or table.called(kinds):
        values = None if name in used else table.numbers(name)
        if values is not None and values.ndim == 1 and not are_classes(values):
            return name
    return None
