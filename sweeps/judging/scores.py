"""Which columns of a file are the scores, one for each class."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import expit, softmax

from sweeps.errors import UserError
from sweeps.judging import names
from sweeps.judging.classes import places, texts
from sweeps.judging.inputs import PERCENT, are_percent, are_probabilities
from sweeps.judging.tables import ARRAY, Table

Array = npt.NDArray[Any]

_SAME = 1e-2  # largest difference of two readings that agree; files often have two decimals


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

    def predicted(self) -> Array:
        """The predicted class of each sample as text, (N,)."""
        if self.values.ndim == 1:
            return np.array([])
        winners = self.values.argmax(axis=1)
        return np.asarray(np.array(self.classes)[winners] if self.classes else winners.astype(str))


def full_scores(table: Table, asked: Sequence[str], logits: bool) -> Scores | None:
    """Scores of all classes, by the names of the columns; None if there are none.

    Raises:
        UserError: Two sets of columns could be the scores, and differ.
    """
    if table.names == (ARRAY,):
        return Scores((ARRAY,), table.column(ARRAY), None)
    if asked:
        return _asked_scores(table, asked)
    for kinds in (names.PROBS_OR_LOGITS, names.SCORES):
        found = [*_matrices(table, kinds), *_families(table, kinds)]
        if len(found) > 1:
            found = [each for each in found if _possible(each, logits)] or found[:1]
        if found:
            return only(table, found)
    return None


def _asked_scores(table: Table, asked: Sequence[str]) -> Scores | None:
    parts = [names.kind_and_class(each) for each in asked]
    kinds = {part[0] for part in parts if part}
    if len(asked) > 1:
        alike = len(kinds) == 1 and all(parts)
        classes = tuple(part[1] for part in parts if part) if alike else tuple(asked)
        logits = names.means_logits(kinds.pop()) if alike else None
        return Scores(tuple(asked), _stack(table, asked), logits, classes, named=True)
    [name] = asked
    values = _numbers_or_lists(table, name)
    if values is None or values.ndim == 1:
        return None
    return _matrix(table, name, values)


def _matrices(table: Table, kinds: Sequence[str]) -> list[Scores]:
    """Columns of lists, and two-dimensional arrays."""
    found = []
    for name in table.called(kinds):
        values = _numbers_or_lists(table, name)
        if values is not None and values.ndim == 2 and values.shape[1] > 1:
            found.append(_matrix(table, name, values))
    return found


def _numbers_or_lists(table: Table, name: str) -> Array | None:
    """Numbers of a column, also from lists as text, as pandas writes them to CSV: [.1, .9]."""
    values = table.numbers(name)
    words = table.words(name) if values is None else []
    if not (words and words[0].startswith("[")):
        return values
    rows = [text.strip("[]").replace(",", " ").split() for text in words]
    try:
        return np.array(rows, dtype=np.float64)
    except ValueError:
        raise UserError(
            f"{table.path}: column {name} has lists as text that are not numbers of one length"
        ) from None


def _matrix(table: Table, name: str, values: Array) -> Scores:
    """Scores (N, K); their classes have names if an npz file has an array of them."""
    for rank in table.called(names.RANKS):
        own = table.lists(rank)
        if own is not None and own.shape == values.shape and _are_ranks(rank, own):
            raise UserError(_ranked(table, (name,), rank))
    scores = Scores((name,), values, names.means_logits(name))
    for key in table.called(names.CLASS_NAMES) if table.path.suffix == ".npz" else ():
        words = table.column(key)
        if words.shape == values.shape[1:]:
            return replace(scores, classes=tuple(texts(words).tolist()), beside=(key,))
    return scores


def _are_ranks(name: str, values: Array) -> bool:
    return name.lower().startswith("ind") or values.dtype.kind == "U"  # others are one-hot labels


def _families(table: Table, kinds: Sequence[str]) -> list[Scores]:
    """Columns such as prob_0, prob_1, …: one for each class, two at least."""
    found = [
        family(table, kind, members)
        for kind, members in families(table, kinds).items()
        if len(members) > 1
    ]
    return [each for each in found if len(each.columns) > 1]


def families(table: Table, kinds: Sequence[str]) -> dict[str, list[str]]:
    """The columns of each kind that name a class."""
    found: dict[str, list[str]] = {}
    for column in table.visible:
        kind, _ = names.kind_and_class(column) or ("", "")
        if kind in kinds:
            found.setdefault(kind, []).append(column)
    return found


def family(table: Table, kind: str, members: Sequence[str]) -> Scores:
    """The scores in columns of one kind, in the order of the classes."""
    by_class: dict[str, str] = {}
    for column in members:
        _, of_class = names.kind_and_class(column) or ("", "")
        if table.numbers(column) is None:
            continue
        if of_class in by_class:
            raise UserError(f"{table.path}: {by_class[of_class]} and {column} are one class")
        by_class[of_class] = column
    if not by_class:
        return Scores((), np.empty((0, 0)), None)
    numbered = all(each.isdecimal() for each in by_class)
    classes = tuple(sorted(by_class, key=int) if numbered else by_class)
    columns = tuple(by_class[each] for each in classes)
    for rank in names.RANKS:
        if numbered and all(f"{rank}_{each}" in table.names for each in classes):
            raise UserError(_ranked(table, columns, f"{rank}_{classes[0]}"))
    return Scores(columns, _stack(table, columns), names.means_logits(kind), classes, named=True)


def _ranked(table: Table, columns: Sequence[str], rank: str) -> str:
    return (
        f"{table.path}: {names.shortened(columns, 6)} are the largest scores of each sample, with "
        f"their classes in {rank}, not the scores of all classes; write those of all classes"
    )


def _stack(table: Table, columns: Sequence[str]) -> Array:
    return np.stack([table.figures(each) for each in columns], axis=1)


def _possible(scores: Scores, logits: bool) -> bool:
    return logits or scores.logits is not False or are_probabilities(scores.values)


def only(table: Table, found: Sequence[Scores]) -> Scores:
    """The scores on which all readings agree; logits have more digits than probabilities."""
    first = next((each for each in found if each.logits), found[0])
    for other in found:
        if other is not first and not _agree(first, other):
            both = " and ".join(names.shortened(each.columns, 4) for each in (first, other))
            raise UserError(
                f"{table.path}: {both} differ, and each could be the scores; say which: --scores "
                "NAME, or --scores NAME,NAME,…"
            )
    return first


def _agree(one: Scores, other: Scores) -> bool:
    if one.values.shape != other.values.shape:
        return False
    values = _as_probabilities(other)
    if one.classes and other.classes:
        order = places(one.classes, other.classes)
        if order is None:
            return False
        values = values[:, list(order.values())]
    return bool(np.abs(_as_probabilities(one) - values).max(initial=0) <= _SAME)


def _as_probabilities(scores: Scores) -> Array:
    values = scores.values.astype(np.float64)
    if values.ndim == 1:
        return np.asarray(expit(values)) if scores.logits else values
    if scores.logits or (scores.logits is None and not are_probabilities(values)):
        return np.asarray(softmax(values, axis=1))
    return values


def scores_by_class_name(table: Table, label: str, labels: Array, logits: bool) -> Scores | None:
    """Scores in columns that are called as the classes: ``cat, dog, label``; None without any.

    Columns of classes that no sample has are recognised because rows then sum to one.

    Raises:
        UserError: They hold percent, as numbers or text, or it is unclear which are scores.
    """
    words = np.unique(texts(labels)).tolist() if labels.ndim == 1 else []
    columns = [each for each in table.visible if each != label]
    found = places(words, columns)
    if not found:
        return None
    own = [columns[place] for place in found.values()]
    floats = [
        each
        for each in columns
        if each in own or (not names.has_role(each) and _is_float(table, each))
    ]
    if any(table.numbers(each) is None for each in own):
        for each in own:
            if any("%" in word for word in table.words(each)):
                table.figures(each)  # refuses percent
        return None
    for chosen in (floats, [each for each in columns if each in own]):
        if len(chosen) > 1 and are_percent(_stack(table, chosen)):
            raise UserError(f"{table.path}: {names.shortened(chosen, 4)}: {PERCENT}")
        if len(chosen) > 1 and (logits or are_probabilities(_stack(table, chosen))):
            if logits and len(chosen) > len(own):
                raise UserError(
                    f"{table.path}: {names.shortened([*{*chosen} - {*own}])} may be logits of "
                    "further classes, or no scores; say which: --scores NAME,NAME,…"
                )
            return Scores(tuple(chosen), _stack(table, chosen), logits, tuple(chosen), named=True)
    return None


def _is_float(table: Table, name: str) -> bool:
    try:
        values = table.column(name)
    except UserError:  # it is not used
        return False
    return values.ndim == 1 and values.dtype.kind == "f"
