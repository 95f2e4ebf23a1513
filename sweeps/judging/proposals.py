"""Readings of a file: names propose them, values object.

A reading says which columns are the scores, and of what. An objection is its first consequence that
the values contradict.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from sweeps.judging.classes import canonical, in_one_form, matched, places, texts, unknown
from sweeps.judging.inputs import Scores, are_decisions, fault_of_probabilities
from sweeps.judging.names import ABSTAINED, MARGINS, has_name, shortened
from sweeps.judging.tables import Table

Array = npt.NDArray[Any]

_FEWEST_SORTED = 10  # rows of three scores fall by chance in 1 of 6
_AGREE = 0.9  # share of the file's predictions that a class in a column's name explains
_ROUNDING = 1e-3  # files often have three decimals
_MOST_CLASSES = 10_000  # a predicted class has a probability of at least one over their number


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


@dataclass(frozen=True)
class Reading:
    """What columns mean, also in words; the `option` decides for it."""

    source: Source
    scores: Scores
    option: str = ""
    meaning: str = ""


@dataclass(frozen=True)
class Objection:
    """Why the values contradict a reading."""

    reason: str


Proposal = Reading | Objection


def of_all_classes(source: Source, scores: Scores, *, certain: bool = False) -> Proposal:
    """Scores of all classes, (N, K); a reading that the user chose is `certain`."""
    values, labels = scores.values, source.labels.values
    classes = scores.classes or tuple(map(str, range(values.shape[-1])))
    several = values.ndim == 2 and values.shape[1] > 1
    if several and labels.ndim == 1 and matched(labels, classes, named=scores.named) is None:
        return Objection(unknown(labels, classes))
    bound = several and scores.logits is False and not are_decisions(labels)
    if bound and (fault := fault_of_probabilities(values)):
        return Objection(fault)
    option = "`scores=NAME`, or `scores=NAME,NAME,…`"
    if not certain and _fall(values):
        return Objection(
            f"{shortened(scores.columns, 6)} fall from the first to the last in every row, so "
            "they are the largest scores of each sample and not those of fixed classes; write "
            f"those of all classes, or say that they are: {option}"
        )
    return Reading(source, scores, option, shortened(scores.columns, 4))


def _fall(values: Array) -> bool:
    """Whether no row rises anywhere, in a table whose rows differ."""
    if values.ndim != 2 or len(values) < _FEWEST_SORTED or values.shape[1] < 3:
        return False
    return bool((np.diff(values, axis=1) <= 0).all() and (values != values[:1]).any())


def of_one_class(
    source: Source, scores: Scores, predictions: Predictions | None = None, *, certain: bool = False
) -> Proposal:
    """Scores (N,) of the second of two classes; they rise with the file's own predictions."""
    [column], (other, name), values = scores.columns, scores.classes, scores.values
    option = f"`scores={column}`"
    if not certain and values.size:
        if scores.logits and has_name(column, MARGINS) and values.min() >= 0:
            return Objection(
                f"{column} is never negative, so it is no logit of class {name} ({option})"
            )
        if predictions is not None and not _explains(scores, predictions.are(name)):
            return Objection(
                f"{predictions.column} does not follow the probability of class {name} in "
                f"{column} ({option})"
            )
    of_other = 0 * values if scores.logits else 1 - values
    both, classes = [of_other, values], (other, name)
    if name == "0":
        both, classes = both[::-1], (name, other)
    whole = replace(
        scores,
        values=np.stack(both, axis=1),
        classes=classes,
        named=True,
        what=f"{'logits' if scores.logits else 'probabilities'} of class {name} of 2",
    )
    return Reading(source, whole, option, f"{column} as the score of class {name}")


def _explains(scores: Scores, own: Array) -> bool:
    """Whether scores (N,) of a class explain where it is predicted, (N,)."""
    values, half = scores.values, 0.0 if scores.logits else 0.5
    ahead = values >= half
    if ((ahead | ~own) & ((values <= half) | own)).all():
        return True
    if scores.named and (ahead == own).mean() >= _AGREE:
        return True
    if ahead.all():
        return False
    if own.all() or not own.any():
        return scores.classes[1] == "1"  # a threshold outside of all values
    return bool(values[~own].max() <= values[own].min())  # another threshold


def of_prediction(
    source: Source, column: str, values: Array, predictions: Predictions, *, certain: bool = False
) -> Proposal:
    """Probabilities (N,) of the predicted class; the other classes share the rest."""
    option = f"`confidence={column}`"
    least, most = float(values.min(initial=1.0)), float(values.max(initial=0.0))
    if not (least > 1 / _MOST_CLASSES and most <= 1):
        return Objection(
            f"{column} runs from {least:.4g} to {most:.4g}; the probability of a predicted class "
            "is above 0 and at most 1"
        )
    guesses, true = (each.tolist() for each in in_one_form(predictions.words, source.labels.words))
    words = {*guesses} | {*true}
    if len(words) == len({*guesses}) + len({*true}):
        return Objection(
            f"predictions in {predictions.column} are {shortened(sorted({*guesses}), 4)}, labels "
            f"are {shortened(sorted({*true}), 4)}: no class is in both. Write both alike, or name "
            "another column of labels: `label=NAME`"
        )
    known = max(2, len(words))
    if not certain and least < 1 / known - _ROUNDING:
        return Objection(
            f"{column} is {least:.4g} in row {int(values.argmin())} (from 0), while the "
            f"probability of the most likely of {known} classes, as those of "
            f"{predictions.column}, is at least {1 / known:.4g} ({option})"
        )
    number = max(known, int(1 / least) + 1)  # the predicted one is the largest
    place = {word: index for index, word in enumerate(sorted(words, key=_by_number))}
    table = np.repeat(((1 - values) / (number - 1))[:, None], number, axis=1)
    table[np.arange(len(table)), [place[each] for each in guesses]] = values
    scores = Scores(
        table,
        False,
        (*place, *[f"other {index + 1}" for index in range(number - len(place))]),
        named=True,
        columns=(column,),
        beside=(predictions.column,),
        what=f"probabilities of the predicted class, in {predictions.column},",
        top_label_only=True,
    )
    return Reading(source, scores, option, f"{column} as the confidence of {predictions.column}")


def _by_number(word: str) -> tuple[int, str]:
    return (len(word) if word.isdecimal() else 0, word)


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
