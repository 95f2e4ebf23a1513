"""Matching labels with the names of classes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import takewhile
from typing import Any

import numpy as np
import numpy.typing as npt

from sweeps.errors import UserError

Array = npt.NDArray[Any]
Indices = npt.NDArray[np.int64]

_NUMBER = re.compile(r"[+-]?\d+(\.\d*)?")
_NUMBERED = re.compile(r"^(class|label|cls)[ _]?(?=\d+$)", re.IGNORECASE)
_TRUTH = {"true": "1", "false": "0"}
IGNORED = "-100"  # PyTorch's ignore_index


def texts(values: Array) -> Array:
    """Labels as text (N,): 3.0 as ``3``, because empty cells turn integers into floats."""
    if values.dtype.kind == "S":
        return np.char.decode(values, "utf-8")
    if values.dtype.kind == "f" and np.isfinite(values).all() and (values == values.round()).all():
        values = values.astype(np.int64)
    return values.astype(str)


def canonical(text: str) -> str:
    """The form in which numbers and truth values are compared: ``1`` for 1.0, 01 and TRUE."""
    if _NUMBER.fullmatch(text):
        return f"{float(text):g}" if "." in text else str(int(text))
    return _TRUTH.get(text.lower(), text)


def in_one_form(guesses: Array, true: Array) -> list[Array]:
    """Both as they are if each guess is a label; else 3.0 is 3, and True is 1, if that unites."""
    words = {*guesses.tolist()}, {*true.tolist()}
    every = words[0] | words[1]
    if words[0] <= words[1] or len({*map(canonical, every)}) == len(every):
        return [guesses, true]
    return [np.array([canonical(each) for each in column.tolist()]) for column in (guesses, true)]


def _number_alone(text: str) -> str:
    return canonical(_NUMBERED.sub("", text))


def _name_in_r(text: str) -> str:
    return re.sub(r"[^\w.]", ".", text)


def places(words: Sequence[str], classes: Sequence[str]) -> dict[str, int] | None:
    """The index of the class that each word names; None if a word names none.

    The text decides. Only if it does not, are numbers compared as numbers and truth values as 0 and
    1, ``class_3`` as 3, and ``CD4 T`` as R's ``CD4.T``; not if two words, or two classes, are then
    alike.
    """
    for form in (str, canonical, _number_alone, _name_in_r):
        names, own = [form(each) for each in classes], [form(each) for each in words]
        unlike = len({*names}) == len(names) and len({*own}) == len(own)
        if unlike and {*own} <= {*names}:
            return {word: names.index(each) for word, each in zip(words, own, strict=True)}
    return None


def without_common(columns: Sequence[str], words: Sequence[str]) -> tuple[str, ...] | None:
    """Columns without what all their names have in common; None if these are not the words.

    ``resnet_prob_10, resnet_prob_11`` are ``10, 11``, and ``P (class=cat)`` is ``cat``.
    """
    before = _beginning(columns)
    after = _beginning([each[::-1] for each in columns])[::-1]
    whole = (
        re.sub(r"\w*$", "", before.replace("_", " ")),
        re.sub(r"^\w*", "", after.replace("_", " ")),
    )
    for start, end in (tuple(map(len, whole)), (len(before), len(after))):
        rest = tuple(each[start : len(each) - end] for each in columns)
        if all(rest) and places(words, rest) is not None:
            return rest
    return None


def _beginning(words: Sequence[str]) -> str:
    """What all words begin with."""
    alike = takewhile(lambda letters: len({*letters}) == 1, zip(*words, strict=False))
    return "".join(letters[0] for letters in alike)


def matched(labels: Array, classes: Sequence[str], *, named: bool) -> dict[str, int] | None:
    """The class of each different label, as text; None if one is no class.

    `classes` are numbers if the K classes have no names. If they are not `named` by columns,
    integers are positions.
    """
    words = np.unique(texts(labels)).tolist()
    found = places(words, classes)
    if found is None and len(classes) == 2 and {*words} <= {"-1", "1"} and not named:
        return {"-1": 0, "1": 1}
    if found is None and not named and labels.dtype.kind in "iu" and all(map(_is_word, classes)):
        found = {word: int(word) for word in words if 0 <= int(word) < len(classes)}
    return None if found is None or len(found) < len(words) else found


def class_indices(name: str, labels: Array, classes: Sequence[str], *, named: bool) -> Indices:
    """The class of each label, (N,), from labels (N,) of any type; UserError if one is no class.

    `name` is that of the model, for messages; see :func:`matched`.
    """
    if (found := matched(labels, classes, named=named)) is None:
        raise UserError(f"{name}: {unknown(labels, classes)}")
    words, inverse = np.unique(texts(labels), return_inverse=True)
    return np.array([found[word] for word in words.tolist()], dtype=np.int64)[inverse]


def are_numbered(classes: Sequence[str]) -> bool:
    """Whether classes are called 0, 1, …: they have no names."""
    return list(classes) == [str(each) for each in range(len(classes))]


def _is_word(text: str) -> bool:
    return _NUMBER.fullmatch(text) is None and text.lower() not in _TRUTH


def unknown(labels: Array, classes: Sequence[str]) -> str:
    """Why a label is no class."""
    words = np.unique(texts(labels)).tolist()
    if IGNORED in words:
        return f"has labels {IGNORED}; `ignore_label={IGNORED}` leaves these samples out"
    numbered = are_numbered(classes)
    if labels.dtype.kind == "f" and not all(each.lstrip("-").isdecimal() for each in words):
        return f"labels must be integers or names of classes, not {labels.dtype}"
    if numbered and all(re.fullmatch(r"-?\d+", each) for each in words):
        return _out_of_range(min(map(int, words)), max(map(int, words)), len(classes) - 1)
    other = next(each for each in words if places([each], classes) is None)
    shown = f"{', '.join(classes[:10])}{' …' if len(classes) > 10 else ''}"
    hint = ""
    if all(map(str.isdecimal, words)) and all(map(_is_word, classes)):
        hint = "; write numbers, or names, in both, or name the scores of one model: `scores=NAME`"
    elif numbered and _is_word(other):
        hint = (
            f"; name them: columns such as prob_{other}, an array `classes` in the npz file, or "
            "judge(..., classes=[…])"
        )
    return f"label {other!r} is not a class; the classes are {shown}{hint}"


def _out_of_range(low: int, high: int, last: int) -> str:
    if low >= 1 and high == last + 1:
        return (
            f"labels run from {low} to {high}, but {last + 1} classes are numbered from 0 to "
            f"{last}: subtract 1"
        )
    return f"labels run from {low} to {high}; allowed: 0 to {last}, for {last + 1} columns"
