"""Files with one score per sample: of one class of two, or of the predicted class."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import entr

from sweeps.errors import UserError
from sweeps.judging import names
from sweeps.judging.classes import canonical, places, texts
from sweeps.judging.proposals import (
    Confidence,
    Labels,
    OneClass,
    Predictions,
    Reading,
    Source,
    are_classes,
    is_binary,
    is_count,
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

    def of_one_class(self) -> Iterator[Reading]:
        """Scores of a class that the column names: ``prob_1``, ``p(cat)``."""
        if self.asked.scores or self.asked.confidence:
            return
        source, kinds = self.source, (*names.PROBS_OR_LOGITS, *names.SCORES)
        for kind, members in families(source.table, kinds).items():
            each = family(source.table, kind, members)
            if len(each.columns) != 1:
                continue
            [column], [name], values = each.columns, each.classes, each.values[:, 0]
            if (other := other_class(name, source.labels.classes)) is not None:
                negative = each.logits is None and values.min() < 0
                is_logits = bool(self.asked.logits or each.logits or negative)
                for guesses in self.predictions or (None,):
                    yield OneClass(
                        source, column, values, is_logits, (other, name), guesses, named=True
                    )

    def of_confidences(self) -> Iterator[Reading]:
        """Scores whose name says that they are of the prediction; their values may contradict."""
        table, asked = self.source.table, self.asked
        if asked.scores:
            return
        for column in [asked.confidence] if asked.confidence else table.called(names.CONFIDENCES):
            yield from self._meanings(column, table.figures(column))

    def of_margins(self) -> Iterator[Reading]:
        """Two classes' difference of probabilities, if the entropy beside it confirms that."""
        table = self.source.table
        for column in table.called(names.MARGINS):
            for beside in table.called(names.ENTROPIES):
                margin, entropy = table.numbers(column), table.numbers(beside)
                if margin is not None and entropy is not None and margin.shape == entropy.shape:
                    confidence = (1 + margin) / 2
                    nats = entr(confidence) + entr(1 - confidence)
                    if any(np.abs(nats / unit - entropy).max() < 1e-3 for unit in (1, _BIT)):
                        for guesses in self.predictions:
                            yield Confidence(self.source, column, confidence, guesses)

    def of_kinds(self, kinds: Sequence[str]) -> Iterator[Reading]:
        """Scores whose name does not say of which class."""
        table, asked = self.source.table, self.asked
        for column in asked.scores or table.called(kinds):
            taken = (self.source.labels.origin, *(each.column for each in self.predictions))
            if asked.scores or (column not in taken and _is_score(table.numbers(column), column)):
                yield from self._meanings(column, table.figures(column))

    def of_submissions(self) -> Iterator[Reading]:
        """Scores that have the name of the labels, which are in another file, as on Kaggle."""
        table = self.source.table
        for column in () if self.source.labels.inside else table.called(names.LABELS):
            try:
                values = table.figures(column)  # a CSV file has labels as text
            except UserError:
                continue
            if not are_classes(values) and _is_score(values, column):
                yield from self._meanings(column, values)

    def _meanings(self, column: str, values: Array) -> Iterator[Reading]:
        source, asked = self.source, self.asked
        values = values.astype(np.float64).reshape(len(values), -1)[:, 0]
        logits = bool(asked.logits or names.means_logits(column))
        within = values.size > 0 and values.min() >= 0 and values.max() <= 1
        is_logits = logits or (names.means_logits(column) is None and not within)
        certain = column in asked.scores
        for guesses in () if logits or certain or not within else self.predictions:
            yield Confidence(source, column, values, guesses, certain=column == asked.confidence)
        if column == asked.confidence:
            return
        for guesses in self.predictions:
            for pair in _pairs(source.labels, guesses, certain=certain):
                yield OneClass(source, column, values, is_logits, pair, guesses, certain=certain)
        is_confidence = names.has_name(column, names.CONFIDENCES)
        if not self.predictions and is_binary(source.labels) and (certain or not is_confidence):
            yield OneClass(source, column, values, is_logits, ("0", "1"), certain=certain)


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
            "needed: a column predicted, or --predicted NAME"
        )
    if named := (*asked.scores, *unnamed):
        return UserError(
            f"{table.path}: {named[0]} is one score per sample, but of which class? Labels are not "
            "0 and 1: call it prob_ and the name of the class, or give --predicted NAME"
        )
    return UserError(
        f"{table.path}: holds no probabilities or logits (it has {names.shortened(table.names)}); "
        "needed: `probs` or `logits`, a column for each class such as prob_0, prob_1 or logit_0, "
        "one score per sample such as y_prob or confidence, or --scores NAME,NAME,…"
        f"{_hint(labels, columns)}"
    )


def _hint(labels: Labels, columns: Sequence[str]) -> str:
    """What to do if columns are called as the classes, but are not probabilities."""
    if not places(labels.classes, columns):
        return ""
    shown = names.shortened(columns, 4)
    return f". Some of {shown} are called as the classes: --logits, if they are logits"
