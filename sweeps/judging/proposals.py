"""Readings of a file: names propose them, values object.

A reading says which columns are the scores, and of what. Its ``objection`` is the first consequence
that the values contradict; it is empty if there is none.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from sweeps.judging.classes import canonical, in_one_form, matched, places, texts, unknown
from sweeps.judging.inputs import are_decisions, fault_of_probabilities
from sweeps.judging.names import ABSTAINED, MARGINS, has_name, shortened
from sweeps.judging.tables import Table

Array = npt.NDArray[Any]

_FEWEST_SORTED = 10  # rows of three scores fall by chance in 1 of 6
_AGREE = 0.9  # share of the file's predictions that a class in a column's name explains
_ROUNDING = 1e-3  # files often have three decimals
_MOST_CLASSES = 10_000  # a predicted class has a probability of at least one over their number


@dataclass(frozen=True)
class Scores:
    """Scores of a file.

    Attributes:
        columns: The columns that they come from.
        values: (N, K), or (N,) for one score per sample.
        logits: Whether the name says that they are logits; None if it does not say.
        classes: Names of the classes; empty if they have none.
        named: Whether these are names of columns.
        beside: Further columns that were used.
        what: What they are, if it is not probabilities or logits of all classes.
        top_label_only: See :class:`~sweeps.judging.inputs.Predicted`.
    """

    columns: tuple[str, ...]
    values: Array
    logits: bool | None
    classes: tuple[str, ...] = ()
    named: bool = False
    beside: tuple[str, ...] = ()
    what: str = ""
    top_label_only: bool = False


@dataclass(frozen=True)
class Labels:
    """True labels, and where they come from; whether that is `inside` the file of the scores."""

    origin: str
    values: Array
    inside: bool = True

    @classmethod
    def of(cls, origin: str, values: Array) -> Labels:
        """Labels (N,) from (N,) or (N, 1), as networks with one output have them; or (N, K)."""
        return cls(origin, values[:, 0] if values.shape[1:] == (1,) else values)

    @cached_property
    def words(self) -> Array:
        """The labels as text, (N,); empty if they are soft."""
        return texts(self.values) if self.values.ndim == 1 else np.array([], dtype=str)

    @cached_property
    def classes(self) -> list[str]:
        """The different words."""
        return [str(each) for each in np.unique(self.words)]


@dataclass(frozen=True)
class Predictions:
    """A file's own predictions as text, (N,)."""

    column: str
    words: Array

    @cached_property
    def classes(self) -> list[str]:
        """The different words."""
        return [str(each) for each in np.unique(self.words)]

    def are(self, name: str) -> Array:
        """Where they are this class, (N,)."""
        own = [each for each in self.classes if canonical(each) == canonical(name)]
        return np.isin(self.words, own)

    def abstained(self, labels: Labels) -> Array:
        """Where they are no class but an abstention, (N,)."""
        known = {*map(canonical, labels.classes)}
        words = [each for each in self.classes if canonical(each).lower() in ABSTAINED]
        return np.isin(self.words, [each for each in words if canonical(each) not in known])


@dataclass(frozen=True)
class Source:
    """The rows of a file that are judged, with their labels."""

    table: Table
    labels: Labels
    notes: tuple[str, ...] = ()

    def taken(self, rows: Array, *notes: str) -> Source:
        """Some of the rows, by place."""
        labels = replace(self.labels, values=self.labels.values[rows])
        table = rows_of(self.table, rows, len(self.labels.values))
        return Source(table, labels, (*self.notes, *notes))


def rows_of(table: Table, rows: Array, count: int) -> Table:
    """Some of `count` rows; arrays of another length, such as names of classes, stay."""

    def read(name: str) -> Array:
        values = table.column(name)
        return values[rows] if values.shape[:1] == (count,) else values

    return Table(table.path, table.names, read)


class Reading(Protocol):
    """What columns mean, also in words; ``option`` decides for it."""

    @property
    def source(self) -> Source: ...
    @property
    def option(self) -> str: ...
    @property
    def meaning(self) -> str: ...
    @property
    def objection(self) -> str: ...
    def scores(self) -> Scores: ...


@dataclass(frozen=True)
class AllClasses:
    """Scores of all classes; a reading that the user chose is `certain`."""

    source: Source
    found: Scores
    logits: bool = False
    certain: bool = False

    @property
    def option(self) -> str:
        return "--scores NAME, or --scores NAME,NAME,…"

    @cached_property
    def objection(self) -> str:
        values, labels = self.found.values, self.source.labels.values
        if values.ndim != 2 or values.shape[1] < 2:
            return ""
        classes = self.found.classes or tuple(map(str, range(values.shape[1])))
        if labels.ndim == 1 and matched(labels, classes, named=self.found.named) is None:
            return unknown(labels, classes)
        free = self.logits or self.found.logits is not False or are_decisions(labels)
        if not free and (fault := fault_of_probabilities(values)):
            return fault
        if self.certain or not _fall(values):
            return ""
        return (
            f"{shortened(self.found.columns, 6)} fall from the first to the last in every row, so "
            "they are the largest scores of each sample and not those of fixed classes; write "
            f"those of all classes, or say that they are: {self.option}"
        )

    @property
    def meaning(self) -> str:
        return shortened(self.found.columns, 4)

    def scores(self) -> Scores:
        return self.found


def _fall(values: Array) -> bool:
    """Whether no row rises anywhere, in a table whose rows differ."""
    if len(values) < _FEWEST_SORTED or values.shape[1] < 3 or (values == values[:1]).all():
        return False
    return bool((np.diff(values, axis=1) <= 0).all())


@dataclass(frozen=True)
class OneClass:
    """Scores of one class of two, (N,); `named` says that the column has its name."""

    source: Source
    column: str
    values: Array
    logits: bool
    classes: tuple[str, str]  # the other one, and this
    predictions: Predictions | None = None
    named: bool = False
    certain: bool = False

    @property
    def option(self) -> str:
        return f"--scores {self.column}"

    @property
    def meaning(self) -> str:
        return f"{self.column} as the score of class {self.classes[1]}"

    @cached_property
    def objection(self) -> str:
        """The file's own predictions must rise with the score."""
        if self.certain or self.values.size == 0:
            return ""
        if self.logits and has_name(self.column, MARGINS) and self.values.min() >= 0:
            return (
                f"{self.column} is never negative, so it is no logit of class {self.classes[1]} "
                f"({self.option})"
            )
        if self.predictions is None or self._explain(self.predictions):
            return ""
        return (
            f"{self.predictions.column} does not follow the probability of class "
            f"{self.classes[1]} in {self.column} ({self.option})"
        )

    def _explain(self, predictions: Predictions) -> bool:
        own = predictions.are(self.classes[1])
        half = 0.0 if self.logits else 0.5
        ahead = self.values >= half
        if ((ahead | ~own) & ((self.values <= half) | own)).all():
            return True
        if self.named and (ahead == own).mean() >= _AGREE:
            return True
        if ahead.all():
            return False
        if own.all() or not own.any():
            return self.classes[1] == "1"  # a threshold outside of all values
        return bool(self.values[~own].max() <= self.values[own].min())  # another threshold

    def scores(self) -> Scores:
        values, (other, name) = self.values, self.classes
        pair = [0 * values if self.logits else 1 - values, values]
        order = (1, 0) if name == "0" else (0, 1)
        kind = "logits" if self.logits else "probabilities"
        return Scores(
            (self.column,),
            np.stack([pair[place] for place in order], axis=1),
            self.logits,
            tuple((other, name)[place] for place in order),
            named=True,
            what=f"{kind} of class {name} of 2",
        )


@dataclass(frozen=True)
class Confidence:
    """Probabilities of the predicted class, (N,)."""

    source: Source
    column: str
    values: Array
    predictions: Predictions
    certain: bool = False

    @property
    def option(self) -> str:
        return f"--confidence {self.column}"

    @property
    def meaning(self) -> str:
        return f"{self.column} as the confidence of {self.predictions.column}"

    @cached_property
    def objection(self) -> str:
        least, most = self._ends
        if not (least > 1 / _MOST_CLASSES and most <= 1):
            return (
                f"{self.column} runs from {least:.4g} to {most:.4g}; the probability of a "
                "predicted class is above 0 and at most 1"
            )
        guesses, true = (np.unique(each).tolist() for each in self._words)
        if not {*guesses} & {*true}:
            return (
                f"predictions in {self.predictions.column} are {shortened(guesses, 4)}, labels "
                f"are {shortened(true, 4)}: no class is in both. Write both alike, or name another "
                "column of labels: --label NAME"
            )
        known = max(2, len({*guesses, *true}))
        if self.certain or least >= 1 / known - _ROUNDING:
            return ""
        return (
            f"{self.column} is {least:.4g} in row {int(self.values.argmin())} (from 0), while the "
            f"probability of the most likely of {known} classes, as those of "
            f"{self.predictions.column}, is at least {1 / known:.4g} ({self.option})"
        )

    @cached_property
    def _words(self) -> list[Array]:
        """Predictions and labels in one form."""
        return in_one_form(self.predictions.words, self.source.labels.words)

    @property
    def _ends(self) -> tuple[float, float]:
        return float(self.values.min(initial=1.0)), float(self.values.max(initial=0.0))

    def scores(self) -> Scores:
        """Scores whose largest is that of the predicted class; the others share the rest."""
        words = [*{*np.concatenate(self._words).tolist()}]
        words.sort(key=lambda each: (len(each), each) if each.isdecimal() else (0, each))
        number = max(2, len(words), int(1 / self._ends[0]) + 1)  # the predicted one is the largest
        table = np.repeat(((1 - self.values) / (number - 1))[:, None], number, axis=1)
        place = {word: index for index, word in enumerate(words)}
        guesses = [place[each] for each in self._words[0].tolist()]
        table[np.arange(len(table)), guesses] = self.values
        return Scores(
            (self.column,),
            table,
            False,
            (*words, *[f"other {index + 1}" for index in range(number - len(words))]),
            named=True,
            beside=(self.predictions.column,),
            what=f"probabilities of the predicted class, in {self.predictions.column},",
            top_label_only=True,
        )


def other_class(name: str, words: list[str]) -> str | None:
    """The other of two classes; None if labels have more."""
    others = [word for word in words if places([word], (name,)) is None]
    if len(others) > 1:
        return None
    return others[0] if others else {"1": "0", "0": "1"}.get(canonical(name), f"not {name}")


def is_binary(labels: Labels) -> bool:
    return labels.values.ndim == 1 and {*map(canonical, labels.classes)} <= {"-1", "0", "1"}


def is_count(values: Array) -> bool:
    """Whether values are 0, 1, …, N − 1 or 1, …, N: they number the rows."""
    if values.ndim != 1 or values.dtype.kind not in "iuf" or len(values) < 3:
        return False
    return bool((values == np.arange(len(values)) + values[0]).all() and values[0] in (0, 1))


def are_classes(values: Array | None) -> bool:
    """Whether values may be classes: whole numbers or words that do not number the rows."""
    if values is None or values.ndim != 1 or (is_count(values) and len(values) >= _FEWEST_SORTED):
        return False
    return values.dtype.kind != "f" or bool((values == np.round(values)).all())
