"""Which columns of a file are the scores, one for each class."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from sweeps.errors import UserError
from sweeps.judging import names
from sweeps.judging.classes import places, texts, without_common
from sweeps.judging.inputs import PERCENT, Scores, are_percent, are_probabilities
from sweeps.judging.proposals import Proposal, Source, is_count, of_all_classes
from sweeps.judging.tables import ARRAY, Asked, Table

Array = npt.NDArray[Any]

_CLOSER = 4  # a column is no class if the sums of rows are closer to one without it by this factor
_SCALAR = re.compile(r"np\.\w+\(([^()]*)\)")  # np.float64(0.1), as NumPy 2 writes it in lists


def all_classes(source: Source, asked: Asked, kinds: Sequence[str]) -> Iterator[Proposal]:
    """Scores of all classes, by the names of the columns."""
    table = source.table
    if table.names == (ARRAY,):
        found = [Scores(without_count(table.column(ARRAY)), None, columns=(ARRAY,))]
    elif not asked.scores and (columns := without_header(table)):
        found = [Scores(np.stack(columns, axis=1), None, columns=(ARRAY,))]
    elif asked.scores:
        found = [*_asked_scores(source, asked.scores)]
    else:
        found = [*_matrices(table, kinds), *_families(source, kinds)]
    for each in found:
        if source.labels.origin not in each.columns:
            scores = replace(each, logits=True) if asked.logits else each
            yield of_all_classes(source, scores, certain=bool(asked.scores))


def without_header(table: Table) -> list[Array]:
    """Columns of a file whose first line is no header, without the first, which numbers the rows.

    Its name is then 0, and its values are 1, 2, …. Empty for any other file.
    """
    if len(table.names) < 2 or table.names[0] != "0" or len({*table.names}) < len(table.names):
        return []
    if (numbers := table.numbers("0")) is None or not is_count(numbers) or numbers[0] != 1:
        return []
    found = []
    for name in table.names[1:]:
        values = table.column(name)
        kind = str if values.dtype.kind == "U" else np.float64
        found.append(np.concatenate([np.array([name]).astype(kind), values.astype(kind)]))
    return found


def without_count(values: Array) -> Array:
    """An array without a first column that numbers the rows, as ``to_csv(header=False)`` has it."""
    if values.ndim == 2 and values.shape[1] > 1 and is_count(values[:, 0]):
        return values[:, 1:]
    return values


def _asked_scores(source: Source, asked: Sequence[str]) -> Iterator[Scores]:
    table, words = source.table, source.labels.classes
    if len(asked) == 1:
        if (values := _numbers_or_lists(table, asked[0])) is not None and values.ndim == 2:
            yield _matrix(table, asked[0], values)
        return
    parts = [names.kind_and_class(each) for each in asked]
    kinds = {part[0] for part in parts if part}
    alike = len(kinds) == 1 and all(parts)
    classes = tuple(part[1] for part in parts if part) if alike else tuple(asked)
    if places(words, classes) is None:
        numbers = tuple(map(str, range(len(asked))))
        in_order = words and places(words, numbers) is not None
        classes = without_common(asked, words) or (numbers if in_order else classes)
    logits = names.means_logits(kinds.pop()) if alike else None
    yield Scores(_stack(table, asked), logits, classes, named=True, columns=tuple(asked))


def _matrices(table: Table, kinds: Sequence[str]) -> list[Scores]:
    """Columns of lists, and two-dimensional arrays."""
    found = []
    for name in table.called(kinds):
        values = _numbers_or_lists(table, name)
        if values is not None and values.ndim > 2:
            raise UserError(
                f"{table.path}: {name} has shape {values.shape}; allowed: (N, K), the scores of K "
                "classes for each sample"
            )
        if values is not None and values.ndim == 2 and values.shape[1] > 1:
            found.append(_matrix(table, name, values))
    return found


def _numbers_or_lists(table: Table, name: str) -> Array | None:
    """Numbers of a column, also from lists as text, as pandas writes them to CSV: [.1, .9]."""
    values = table.numbers(name)
    words = table.words(name) if values is None else []
    if not (words and words[0].startswith("[")):
        return values
    rows = [_SCALAR.sub(r"\1", text).strip("[]").replace(",", " ").split() for text in words]
    try:
        return np.array(rows, dtype=np.float64)
    except ValueError:
        raise UserError(
            f"{table.path}: column {name} has lists as text that are not numbers of one length"
        ) from None


def _matrix(table: Table, name: str, values: Array) -> Scores:
    """Scores (N, K); their classes have names if an npz file has an array of them."""
    for rank in table.called(names.RANKS):
        own = table.readable(rank)
        if own is not None and own.shape == values.shape and _are_ranks(rank, own):
            raise UserError(_ranked(table, (name,), rank))
    scores = Scores(values, names.means_logits(name), columns=(name,))
    for key in table.called(names.CLASS_NAMES) if table.path.suffix == ".npz" else ():
        words = table.column(key)
        if words.shape == values.shape[1:]:
            return replace(scores, classes=tuple(texts(words).tolist()), beside=(key,))
    return scores


def _are_ranks(name: str, values: Array) -> bool:
    return name.lower().startswith("ind") or values.dtype.kind == "U"  # others are one-hot labels


def _families(source: Source, kinds: Sequence[str]) -> list[Scores]:
    """Columns such as prob_0, prob_1, …: one for each class, two at least."""
    found = [
        of_labels(family(source.table, kind, members), source)
        for kind, members in families(source.table, kinds).items()
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
        return Scores(np.empty((0, 0)), None)
    numbered = all(each.isdecimal() for each in by_class)
    classes = tuple(sorted(by_class, key=int) if numbered else by_class)
    columns = tuple(by_class[each] for each in classes)
    values, logits = _stack(table, columns), names.means_logits(kind)
    scores = Scores(values, logits, classes, named=True, columns=columns)
    falls = numbered and len(columns) > 1 and bool((np.diff(values, axis=1) <= 0).all())
    if falls and (ranks := ranked_classes(table, classes)):
        return _of_ranks(table, scores, ranks)
    return scores


def ranked_classes(table: Table, numbers: Sequence[str]) -> list[str]:
    """Columns that name the class of each rank: ``label_0, label_1`` or ``class1, class2``."""
    for rank in names.RANKS:
        own = {each.lower(): each for each in table.visible}
        for mark in ("_", "", " ", "."):
            found = [own.get(f"{rank}{mark}{each}".lower()) for each in numbers]
            if all(found):
                return [each for each in found if each]
    return []


def _of_ranks(table: Table, scores: Scores, ranks: Sequence[str]) -> Scores:
    """Scores in the order of their size, with the classes beside; all classes are needed.

    Raises:
        UserError: Some classes are missing in a row.
    """
    words = np.stack([texts(table.column(each)) for each in ranks], axis=1)
    classes, place = np.unique(words, return_inverse=True)
    place = place.reshape(words.shape)
    every = np.arange(len(scores.columns))
    if len(classes) != len(every) or (np.sort(place, axis=1) != every).any():
        raise UserError(_ranked(table, scores.columns, ranks[0]))
    ordered = np.empty_like(scores.values)
    np.put_along_axis(ordered, place, scores.values, axis=1)
    return replace(scores, values=ordered, classes=tuple(classes.tolist()), beside=tuple(ranks))


def _ranked(table: Table, columns: Sequence[str], rank: str) -> str:
    return (
        f"{table.path}: {names.shortened(columns, 6)} are the largest scores of each sample, with "
        f"their classes in {rank}, not the scores of all classes; write those of all classes, or "
        f"judge the first: `predicted={rank}` `confidence={columns[0]}`"
    )


def of_labels(scores: Scores, source: Source) -> Scores:
    """The scores whose columns are classes: statistics of them, as ``prob_0_std``, are left out.

    A class that no label has is none if its name is another one's and a suffix, or if the rows sum
    to one without it and not with it.
    """
    words, classes = source.labels.classes, scores.classes
    if not words or not classes:
        return scores
    if places(words, classes) is None and (rest := without_common(classes, words)):
        return replace(scores, classes=rest)
    if (own := places(words, classes)) is None:
        return scores
    unknown = sorted({*range(len(classes))} - {*own.values()})
    starts = tuple(f"{each}{mark}" for each in classes for mark in "_.:- ")
    others = [place for place in unknown if classes[place].startswith(starts)]
    if scores.logits is False:
        others += _beside_sums(
            scores.values, [each for each in unknown if each not in others], others
        )
    kept = [place for place in range(len(classes)) if place not in others]
    return replace(
        scores,
        columns=tuple(scores.columns[place] for place in kept),
        values=scores.values[:, kept],
        classes=tuple(classes[place] for place in kept),
    )


def _beside_sums(values: Array, unknown: list[int], others: list[int]) -> list[int]:
    """Columns without which rows sum to one, and with which they do not: all of them, or one."""
    sums = values.sum(axis=1) - values[:, others].sum(axis=1)
    within = np.abs(sums - 1).max(initial=0)
    for tried in (unknown, *([each] for each in unknown)):
        without = np.abs(sums - values[:, tried].sum(axis=1) - 1).max(initial=0)
        enough = len(others) + len(tried) + 1 < values.shape[1]
        if tried and enough and within > 1e-6 and without <= within / _CLOSER:
            return tried
    return []


def _stack(table: Table, columns: Sequence[str]) -> Array:
    return np.stack([table.figures(each) for each in columns], axis=1)


def called_as_classes(source: Source, asked: Asked) -> Iterator[Proposal]:
    """Scores in columns that are called as the classes: ``cat, dog, label``.

    Columns of classes that no sample has are recognised because rows then sum to one.

    Raises:
        UserError: They hold percent, as numbers or text, or it is unclear which are scores.
    """
    table, words = source.table, source.labels.classes
    columns = [each for each in table.visible if each != source.labels.origin]
    found = None if asked.scores else places(words, columns)
    if not found:
        return
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
        return
    for chosen in (floats, [each for each in columns if each in own]):
        values = _stack(table, chosen)
        if len(chosen) > 1 and are_percent(values):
            raise UserError(f"{table.path}: {names.shortened(chosen, 4)}: {PERCENT}")
        if len(chosen) > 1 and (asked.logits or are_probabilities(values)):
            if asked.logits and len(chosen) > len(own):
                raise UserError(
                    f"{table.path}: {names.shortened([*{*chosen} - {*own}])} may be logits of "
                    "further classes, or no scores; say which: `scores=NAME,NAME,…`"
                )
            classes = tuple(chosen)
            scores = Scores(values, asked.logits, classes, named=True, columns=classes)
            yield of_all_classes(source, of_labels(scores, source))
            return


def affixed_classes(source: Source, asked: Asked) -> Iterator[Proposal]:
    """Scores in columns called as the classes and something that all have: ``Forest (cat)``."""
    table, words = source.table, source.labels.classes
    columns = [each for each in table.visible if each != source.labels.origin]
    ends = [] if asked.scores or len(words) < 2 else [each.rpartition(words[0]) for each in columns]
    around = dict.fromkeys((before, after) for before, own, after in ends if own and before + after)
    for before, after in around:
        chosen = [
            each
            for each in columns
            if each.startswith(before) and each.endswith(after) and _is_float(table, each)
        ]
        classes = tuple(each[len(before) : len(each) - len(after)] for each in chosen)
        if all(classes) and {*words} <= {*classes}:
            values = _stack(table, chosen)
            scores = Scores(values, False, classes, named=True, columns=tuple(chosen))
            if are_probabilities(values):
                yield of_all_classes(source, scores)


def _is_float(table: Table, name: str) -> bool:
    values = table.readable(name)
    return values is not None and values.ndim == 1 and values.dtype.kind == "f"
