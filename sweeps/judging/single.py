"""Files with one score per sample: of one class of two, or of the predicted class."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import entr

from sweeps.errors import UserError
from sweeps.judging import names
from sweeps.judging.classes import canonical, places, texts
from sweeps.judging.inputs import Scores
from sweeps.judging.proposals import (
    Labels,
    Predictions,
    Proposal,
    Source,
    are_classes,
    is_binary,
    is_count,
    of_one_class,
    of_prediction,
    other_class,
)
from sweeps.judging.scores import families, family
from sweeps.judging.tables import Asked
from sweeps.messages.formatting import format_fraction

Array = npt.NDArray[Any]

_BIT = math.log(2)
_MOST = 0.5  # share of rows whose word is a label, in a column of predictions
_CHANCE = 3  # standard errors above the agreement of unrelated columns


@dataclass(frozen=True)
class Single:
    """What a file with one score per sample has: labels, and maybe predictions."""

    source: Source
    asked: Asked
    predictions: tuple[Predictions, ...]


def _of_named_class(single: Single) -> Iterator[Proposal]:
    """Scores of a class that the column names: ``prob_1``, ``p(cat)``."""
    source, asked = single.source, single.asked
    kinds = () if asked.scores or asked.confidence else (*names.PROBS_OR_LOGITS, *names.SCORES)
    for kind, members in families(source.table, kinds).items():
        each = family(source.table, kind, members)
        if len(each.columns) != 1:
            continue
        if (other := other_class(each.classes[0], source.labels.classes)) is not None:
            values = each.values[:, 0]
            negative = each.logits is None and values.min() < 0
            logits = bool(asked.logits or each.logits or negative)
            scores = replace(each, values=values, logits=logits, classes=(other, *each.classes))
            for guesses in single.predictions or (None,):
                yield of_one_class(source, scores, guesses)


def _of_confidences(single: Single) -> Iterator[Proposal]:
    """Scores whose name says that they are of the prediction; their values may contradict."""
    table, asked = single.source.table, single.asked
    columns = [asked.confidence] if asked.confidence else table.called(names.CONFIDENCES)
    for column in () if asked.scores else columns:
        yield from _meanings(single, column, table.figures(column))


def _of_margins(single: Single) -> Iterator[Proposal]:
    """Two classes' difference of probabilities, if the entropy beside it confirms that."""
    table = single.source.table
    for column, beside in product(table.called(names.MARGINS), table.called(names.ENTROPIES)):
        margin, entropy = table.numbers(column), table.numbers(beside)
        if margin is not None and entropy is not None and margin.shape == entropy.shape:
            confidence = (1 + margin) / 2
            nats = entr(confidence) + entr(1 - confidence)
            if any(np.abs(nats / unit - entropy).max() < 1e-3 for unit in (1, _BIT)):
                for guesses in single.predictions:
                    yield of_prediction(single.source, column, confidence, guesses)


def _of_kinds(single: Single, kinds: Sequence[str]) -> Iterator[Proposal]:
    """Scores whose name does not say of which class."""
    table, asked = single.source.table, single.asked
    taken = (single.source.labels.origin, *(each.column for each in single.predictions))
    for column in asked.scores or table.called(kinds):
        if asked.scores or (column not in taken and _is_score(table.numbers(column), column)):
            yield from _meanings(single, column, table.figures(column))


def _of_submissions(single: Single) -> Iterator[Proposal]:
    """Scores that have the name of the labels, which are in another file, as on Kaggle."""
    table = single.source.table
    for column in () if single.source.labels.inside else table.called(names.LABELS):
        try:
            values = table.figures(column)  # a CSV file has labels as text
        except UserError:
            continue
        if not are_classes(values) and _is_score(values, column):
            yield from _meanings(single, column, values)


OF_ONE_SCORE: tuple[Callable[[Single], Iterator[Proposal]], ...] = (
    _of_named_class,
    _of_confidences,
    _of_margins,
    partial(_of_kinds, kinds=(*names.LOGITS, *names.PROBS)),
    partial(_of_kinds, kinds=names.SCORES),
    _of_submissions,
)
"""Proposals for files with one score per sample, in the order of how much they say."""


def _meanings(single: Single, column: str, values: Array) -> Iterator[Proposal]:
    """What scores of one column may be: of the prediction, or of either class."""
    source, asked = single.source, single.asked
    values = values.astype(np.float64).reshape(len(values), -1)[:, 0]
    within = values.size > 0 and values.min() >= 0 and values.max() <= 1
    by_name = True if asked.logits else names.means_logits(column)
    asked_for, certain = column == asked.confidence, column in asked.scores
    if within and not by_name and not certain:
        for guesses in single.predictions:
            yield of_prediction(source, column, values, guesses, certain=asked_for)
    if asked_for:
        return
    is_logits = bool(by_name or (by_name is None and not within))
    scores = Scores(values, is_logits, columns=(column,))
    for guesses in single.predictions:
        for pair in _pairs(source.labels, guesses, certain=certain):
            yield of_one_class(source, replace(scores, classes=pair), guesses, certain=certain)
    is_confidence = names.has_name(column, names.CONFIDENCES)
    if not single.predictions and is_binary(source.labels) and (certain or not is_confidence):
        yield of_one_class(source, replace(scores, classes=("0", "1")), certain=certain)


def _pairs(labels: Labels, guesses: Predictions, *, certain: bool) -> list[tuple[str, str]]:
    """The other class and the one whose scores a column may hold."""
    words = labels.classes
    if is_binary(labels):
        known = {*map(canonical, words), *map(canonical, guesses.classes)}
        if certain or not known <= {"-1", "0", "1"}:
            return [("0", "1")]
        return [("0", "1"), ("1", "0")]
    if len(words) != 2 or places(guesses.classes, words) is None:
        return []
    return [(words[0], words[1]), (words[1], words[0])]


def single_of(source: Source, asked: Asked) -> Single:
    """The file without the samples for which it predicts no class."""
    found = predictions_of(source, asked)
    if not found or found[0].words.shape != source.labels.words.shape:
        return Single(source, asked, ())
    kept = ~found[0].abstained(source.labels)
    if kept.all():
        return Single(source, asked, found)
    if not kept.any():
        raise UserError(f"{source.table.path}: {found[0].column} predicts no class in any row")
    note = (
        f"{found[0].column} abstains in {int((~kept).sum()):,} of {len(kept):,} samples, the "
        f"others are judged: coverage {format_fraction(kept.mean())}"
    )
    source = source.taken(np.flatnonzero(kept), note)
    return Single(source, asked, predictions_of(source, asked))


def predictions_of(source: Source, asked: Asked) -> tuple[Predictions, ...]:
    """The file's own predictions: columns of classes whose names or values say so."""
    table, labels = source.table, source.labels
    if asked.predicted:
        return (Predictions(asked.predicted, texts(table.column(asked.predicted))),)
    for name in table.called(names.PREDICTED):
        if name != labels.origin and are_classes(table.readable(name)):
            return (Predictions(name, texts(table.column(name))),)
    certain = names.has_name(labels.origin, names.TRUE_LABELS) or asked.label or not labels.inside
    weak = (*(names.LABELS if certain else ()), *names.CATEGORIES)
    found = [
        Predictions(each, texts(table.column(each)))
        for each in [each for each in table.called(weak) if each != labels.origin]
        if are_classes(table.readable(each))
    ]
    return tuple(each for each in found if _of_labels(each, labels))


def _of_labels(guesses: Predictions, labels: Labels) -> bool:
    """Whether a column whose name does not say so holds predictions of the classes."""
    known = np.zeros(len(guesses.words), dtype=bool)
    for each in labels.classes:
        known |= guesses.are(each)
    if names.has_name(guesses.column, names.CATEGORIES) and not any(
        each.lstrip("-").isdecimal() for each in guesses.classes
    ):
        return bool(known.mean() > _MOST)
    return bool(known.all()) and _beyond_chance(guesses, labels)


def _beyond_chance(guesses: Predictions, labels: Labels) -> bool:
    """Whether a column agrees with the labels more often than unrelated columns do."""
    if guesses.words.shape != labels.words.shape:
        return False
    pairs = [(guesses.are(each), labels.words == each) for each in labels.classes]
    agree = sum(float((one & other).mean()) for one, other in pairs)
    chance = sum(float(one.mean() * other.mean()) for one, other in pairs)
    return agree > chance + _CHANCE * math.sqrt(chance * (1 - chance) / len(labels.words))


def _is_score(values: Array | None, name: str) -> bool:
    if values is None or values.shape[1:] not in ((), (1,)) or is_count(values.reshape(-1)):
        return False
    return not (names.has_name(name, names.PREDICTED) and are_classes(values))


def without_single(source: Source, asked: Asked) -> UserError:
    """Why a file has no score that can be judged."""
    table, labels = source.table, source.labels
    columns = [each for each in table.visible if each != labels.origin]
    if labels.values.ndim > 1:
        return UserError(
            f"{table.path}: {labels.origin} has shape {labels.values.shape}, but scores of all "
            "classes are missing; needed: `probs`, `logits`, or a column for each class"
        )
    kinds = (*names.LOGITS, *names.PROBS, *names.SCORES)
    for name in table.called(kinds):
        try:
            table.column(name)
        except UserError as error:
            return error
    unnamed = [each for each in table.called(kinds) if _is_score(table.numbers(each), each)]
    if asked.confidence or (not unnamed and table.called(names.CONFIDENCES)):
        column = asked.confidence or table.called(names.CONFIDENCES)[0]
        if predictions_of(source, asked):
            low, high = np.quantile(table.figures(column), (0, 1))
            return UserError(
                f"{table.path}: {column} runs from {low:.4g} to {high:.4g}; probabilities lie "
                "between 0 and 1; write percent as shares, 0.5 for 50%"
            )
        return UserError(
            f"{table.path}: {column} is the confidence of predictions that are missing; "
            "needed: a column predicted, or `predicted=NAME`"
        )
    if named := (*asked.scores, *unnamed):
        return UserError(
            f"{table.path}: {named[0]} is one score per sample, but of which class? Labels are not "
            "0 and 1: call it prob_ and the name of the class, or give `predicted=NAME`"
        )
    return UserError(
        f"{table.path}: holds no probabilities or logits (it has {names.shortened(table.names)}); "
        "needed: `probs` or `logits`, a column for each class such as prob_0, prob_1 or logit_0, "
        "one score per sample such as y_prob or confidence, or `scores=NAME,NAME,…`"
        f"{_hint(labels, columns)}"
    )


def _hint(labels: Labels, columns: Sequence[str]) -> str:
    """What to do if columns are called as the classes, but are not probabilities."""
    if not places(labels.classes, columns):
        return ""
    shown = names.shortened(columns, 4)
    return f". Some of {shown} are called as the classes: `logits=true`, if they are logits"
