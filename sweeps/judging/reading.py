"""Reads predictions from npz, npy, CSV and Parquet files.

Names of columns decide what is what. Where two columns could be the scores, or the labels, and
their values differ, the file is refused, and the message names the option that decides.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sweeps.errors import UserError
from sweeps.judging import names
from sweeps.judging.classes import canonical, texts
from sweeps.judging.inputs import Predicted, aligned, check_predicted
from sweeps.judging.scores import Scores, full_scores, scores_by_class_name
from sweeps.judging.single import single_score
from sweeps.judging.tables import Asked, Table, open_table

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Labels:
    """True labels, and where they come from."""

    origin: str
    values: Array

    @classmethod
    def of(cls, origin: str, values: Array) -> Labels:
        """Labels (N,) from (N,) or (N, 1), as networks with one output have them; or (N, K)."""
        return cls(origin, values[:, 0] if values.shape[1:] == (1,) else values)


def read_predictions(files: Sequence[str], asked: Asked | None = None) -> list[Predicted]:
    """The predictions of all models in these files; a model is named after its file, or a column.

    Raises:
        UserError: A file cannot be read, or its content cannot be judged. The message says why.
    """
    asked = asked or Asked()
    shared = None if asked.labels is None else _labels_of(Path(asked.labels), asked)
    return aligned([each for file in files for each in _models(Path(file), asked, shared)])


def _models(path: Path, asked: Asked, shared: Labels | None) -> Iterator[Predicted]:
    table = open_table(path, asked.words)
    scores = full_scores(table, asked.scores, asked.logits)
    labels = shared or _labels(table, asked.label, scores)
    scores = scores or scores_by_class_name(table, labels.origin, labels.values, asked.logits)
    scores = scores or single_score(table, labels.origin, labels.values, asked)
    groups = None if asked.group is None else table.column(asked.group)
    clusters = None if asked.cluster is None else table.column(asked.cluster)
    for what, each in (("labels", labels.values), ("groups", groups), ("clusters", clusters)):
        if each is not None and each.shape[:1] != scores.values.shape[:1]:
            header = (
                "; is the first line of a file no header?"
                if abs(len(each) - len(scores.values)) == 1
                else ""
            )
            raise UserError(
                f"{path.stem}: {what} have shape {each.shape}; ({len(scores.values)},) is needed, "
                f"one for each row of the predictions{header}"
            )
    split_by = asked.model or (names.MODEL if names.MODEL in table.names else None)
    used = {*scores.columns, *scores.beside, labels.origin, asked.group, asked.cluster, split_by}
    ignored = tuple(each or '""' for each in table.names if each not in used)
    kept = _kept(labels.values, asked.ignore_label)
    for name, rows in _by_model(path, len(scores.values), table, split_by):
        own = rows if kept is None else rows & kept
        model = check_predicted(
            name,
            scores.values[own],
            labels.values[own],
            logits=True if asked.logits else scores.logits,
            classes=scores.classes,
            named=scores.named,
            groups=None if groups is None else groups[own],
            clusters=None if clusters is None else clusters[own],
        )
        left_out = int(rows.sum() - own.sum())
        notes = (f"{left_out:,} with label {asked.ignore_label} left out",) if left_out else ()
        read = replace(
            model.read,
            what=scores.what or model.read.what,
            scores=names.shortened(scores.columns, 6),
            labels=labels.origin,
            notes=(*model.read.notes, *notes),
            ignored=ignored,
        )
        yield replace(model, read=read, top_label_only=scores.top_label_only)


def _labels_of(path: Path, asked: Asked) -> Labels:
    """Labels from a file of their own: an array, a column with a usual name, or the only column."""
    table = open_table(path, asked.words)
    if len(table.visible) == 1:
        return Labels.of(path.name, table.column(table.visible[0]))
    found = _labels(table, asked.label if asked.label in table.names else None, None)
    return Labels(f"{found.origin} of {path.name}", found.values)


def _labels(table: Table, label: str | None, scores: Scores | None) -> Labels:
    if label is not None:
        return Labels.of(label, table.column(label))
    named = table.called(names.TRUE_LABELS) or table.called(names.LABELS)
    found = [each for each in named if scores is None or each not in scores.columns]
    if not found:
        raise UserError(
            f"{table.path}: holds no labels (it has {names.shortened(table.names)}); needed: a key "
            "or column label, labels or y_true, --label NAME, or --labels FILE"
        )
    values = {each: table.column(each) for each in found}
    unlike = [found[0], *(each for each in found[1:] if not _same(values[each], values[found[0]]))]
    if len(unlike) > 1 and scores is not None:
        guesses = scores.predicted()
        unlike = [each for each in unlike if not _same(values[each], guesses)]
    if len(unlike) != 1:
        raise UserError(
            f"{table.path}: {' and '.join(unlike or found)} differ, and each could be the true "
            "labels; say which: --label NAME"
        )
    return Labels.of(unlike[0], values[unlike[0]])


def _same(one: Array, other: Array) -> bool:
    """Whether two columns of labels mean the same in each row."""
    if one.ndim > 1 or one.shape != other.shape:
        return bool(np.array_equal(one, other))
    return all(
        canonical(a) == canonical(b)
        for a, b in set(zip(texts(one).tolist(), texts(other).tolist(), strict=True))
    )


def _kept(labels: Array, ignored: str | None) -> Array | None:
    if ignored is None or labels.ndim > 1:
        return None
    words, inverse = np.unique(texts(labels), return_inverse=True)
    return np.array([canonical(each) != canonical(ignored) for each in words.tolist()])[inverse]


def _by_model(
    path: Path, count: int, table: Table, column: str | None
) -> Iterator[tuple[str, Array]]:
    """The name of each model, and its rows as a mask."""
    every = np.ones(count, dtype=bool)
    if column is None:
        yield path.stem, every
        return
    words = texts(table.column(column))
    if words.size == 1:  # an npz file may name its model
        yield str(words.reshape(())), every
        return
    if words.shape != (count,):
        raise UserError(
            f"{path}: {column} has shape {words.shape}; ({count},) is needed, one name for each row"
        )
    for name in dict.fromkeys(words.tolist()):
        yield name, words == name
