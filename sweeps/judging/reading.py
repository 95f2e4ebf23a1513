"""Reads predictions from npz, npy, CSV and Parquet files.

Names of columns propose what is what, and values confirm it. Where two columns could be the scores,
or the labels, and their values differ, the file is refused, and the message names the option that
decides. Rows of two files are matched by their ids, if they have any.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from sweeps.errors import UserError
from sweeps.judging import names
from sweeps.judging.classes import IGNORED, canonical, places, texts
from sweeps.judging.deciding import decided
from sweeps.judging.ids import Rows, repeated_ids, rows_by_id
from sweeps.judging.inputs import Predicted, Scores, aligned, check_predicted, taken
from sweeps.judging.logs import log_reading
from sweeps.judging.proposals import Labels, Reading, Source, rows_of
from sweeps.judging.scores import without_count, without_header
from sweeps.judging.single import predictions_of
from sweeps.judging.tables import ARRAY, Asked, Table, open_table

Array = npt.NDArray[Any]

_NEAR = 1e-2  # a prediction within rounding of the most likely class does not differ from it


def read_predictions(files: Sequence[str], asked: Asked | None = None) -> list[Predicted]:
    """The predictions of all models in these files; a model is named after its file, or a column.

    Raises:
        UserError: A file cannot be read, or its content cannot be judged. The message says why.
    """
    asked = asked or Asked()
    shared = [] if asked.labels is None else _shared_labels(Path(asked.labels), asked)
    found = [each for file in files for each in _models(Path(file), asked, shared)]
    first, rows = found[0]
    return aligned([first, *(_in_rows_of(rows, each, asked.id) for each in found[1:])])


def _in_rows_of(first: Rows, other: tuple[Predicted, Rows], asked: str | None) -> Predicted:
    """The model's samples in the order of the first model's."""
    model, rows = other
    if (matched := rows_by_id(first, rows, asked)) is None:
        return model
    each = len(model.labels) // len(matched[1])  # decisions of a sample
    order = (each * matched[1][:, None] + np.arange(each)).reshape(-1)
    read = replace(model.read, notes=(*model.read.notes, f"matched by {matched[0]}"))
    return replace(taken(model, torch.from_numpy(order)), read=read)


def _models(path: Path, asked: Asked, shared: Sequence[Source]) -> Iterator[tuple[Predicted, Rows]]:
    reading = log_reading(path) or _reading(path, asked, shared)
    source, scores = reading.source, reading.scores
    groups = None if asked.group is None else source.table.column(asked.group)
    clusters = source.table.column(asked.cluster) if asked.cluster else None
    labels, count = source.labels, len(scores.values)
    for what, each in (("labels", labels.values), ("groups", groups), ("clusters", clusters)):
        if each is not None and len(each) != count:
            near = abs(len(each) - count) == 1
            header = "; is the first line of a file no header?" if near else ""
            raise UserError(
                f"{path.stem}: {what} have shape {each.shape}; ({count},) is needed, one for each "
                f"row of the predictions{header}"
            )
    split_by, notes = _split_by(source, asked)
    of_samples = {*scores.columns, *scores.beside, labels.origin}
    used = of_samples | {asked.group, asked.cluster, split_by}
    others = source.table.names if scores.columns else ()  # a log has no other scores
    first = _contradiction(source, scores, asked) if scores.columns else ""
    for name, own in _by_model(source, split_by):
        rows = Rows(rows_of(source.table, own, count), len(own), frozenset(of_samples))
        unit, ids = None, None if clusters is None else clusters[own]
        if asked.cluster is None and (repeated := repeated_ids(rows)):
            unit, ids = repeated
        logits = asked.logits or scores.logits
        part = replace(scores, values=scores.values[own], logits=logits)
        own_groups = None if groups is None else groups[own]
        model = check_predicted(name, part, labels.values[own], own_groups, ids)
        known = (*model.read.notes, *source.notes, *_unseen(model))
        read = replace(
            model.read,
            labels=labels.origin,
            notes=(
                *known,
                *(() if unit is None else (f"clusters are the values of {unit}",)),
                *notes,
            ),
            ignored=tuple(each or '""' for each in others if each not in {*used, unit}),
            first=first,
        )
        yield replace(model, read=read), rows


def _reading(path: Path, asked: Asked, shared: Sequence[Source]) -> Reading:
    """The reading of a file, which is tried with each column that may be its labels."""
    table = open_table(path, asked.words)
    if shared:
        labels = [_joined(table, each, asked.id) for each in shared]
    elif asked.label is not None:
        labels = [Labels.of(asked.label, table.column(asked.label))]
    else:
        labels = _labels_by_name(table, asked)
    return decided([_without_ignored(Source(table, each), asked) for each in labels], asked)


def _labels_by_name(table: Table, asked: Asked) -> list[Labels]:
    taken = (asked.predicted, asked.confidence, *asked.scores)
    for kind in (names.TRUE_LABELS, names.LABELS):
        if found := [each for each in table.called(kind) if each not in taken]:
            return [Labels.of(each, table.column(each)) for each in found]
    raise UserError(
        f"{table.path}: holds no labels (it has {names.shortened(table.names)}); needed: a key "
        "or column label, labels or y_true, `label=NAME`, or `labels=FILE`"
    )


def _without_ignored(source: Source, asked: Asked) -> Source:
    labels, ignored = source.labels, asked.ignore_label
    if ignored is None:
        if IGNORED in labels.classes and not any(
            each.startswith("-") for each in labels.classes if each != IGNORED
        ):
            raise UserError(
                f"{source.table.path}: {labels.origin} has labels {IGNORED}; "
                f"`ignore_label={IGNORED}` leaves these samples out"
            )
        return source
    own = [each for each in labels.classes if canonical(each) == canonical(ignored)]
    kept = np.flatnonzero(~np.isin(labels.words, own)) if own else None
    if kept is None:
        return source
    left_out = len(labels.words) - len(kept)
    return source.taken(kept, f"{left_out:,} with label {ignored} left out")


def _shared_labels(path: Path, asked: Asked) -> list[Source]:
    """Labels from a file of their own: an array, columns with usual names, or the only column."""
    table = open_table(path, asked.words)
    others = [each for each in table.visible if not names.is_id(each)]
    known = table.called((*names.TRUE_LABELS, *names.LABELS))
    if len(table.visible) == 1:
        values = table.column(table.visible[0])
        values = without_count(values) if table.names == (ARRAY,) else values
        found = [Labels.of(path.name, values)]
    elif asked.label is None and len(columns := without_header(table)) == 1:
        found = [Labels.of(path.name, columns[0])]
    elif asked.label in table.names:
        found = [Labels.of(str(asked.label), table.column(str(asked.label)))]
    elif not known and (alone := _without_name(table, others)):
        found = [alone]
    else:
        found = _labels_by_name(table, asked)
    return [Source(table, each) for each in found]


def _without_name(table: Table, others: Sequence[str]) -> Labels | None:
    """Labels in the only column beside ids, or in a column of 0 and 1 for each class."""
    if len(others) == 1:
        return Labels.of(others[0], table.column(others[0]))
    ones = np.stack([table.figures(each) == 1 for each in others], axis=1) if others else None
    zeros = ones is not None and all(
        (table.figures(each)[~ones[:, place]] == 0).all() for place, each in enumerate(others)
    )
    if ones is None or not zeros or (ones.sum(axis=1) != 1).any():
        return None
    return Labels("columns of 0 and 1", np.array(others)[ones.argmax(axis=1)])


def _joined(table: Table, shared: Source, asked: str | None) -> Labels:
    """Labels of another file in the order of the table's rows."""
    labels, file = shared.labels, shared.table.path.name
    origin = labels.origin if labels.origin == file else f"{labels.origin} of {file}"
    theirs = Rows(shared.table, len(labels.values), frozenset({labels.origin}))
    if (matched := rows_by_id(Rows(table), theirs, asked, repeated=True)) is None:
        return Labels(origin, labels.values, inside=False)
    name, rows = matched
    return Labels(f"{origin} by {name}", labels.values[rows], inside=False)


def _split_by(source: Source, asked: Asked) -> tuple[str | None, tuple[str, ...]]:
    """The column that names models; a feature called so has other samples in each of its parts."""
    if asked.model is not None:
        return asked.model or None, ()
    if names.MODEL not in source.table.names:
        return None, ()
    words = texts(source.table.column(names.MODEL))
    count = len(source.labels.values)
    if words.shape != (count,):
        return names.MODEL, ()
    if _alike(source.labels.values, words) or _same_ids(source, words):
        return names.MODEL, ()
    return None, (f"{names.MODEL} names no models, because its parts are different samples",)


def _alike(values: Array, words: Array) -> bool:
    """Whether the parts of values that have the same word are equal."""
    first, *others = (values[words == each] for each in np.unique(words))
    return all(np.array_equal(first, each) for each in others)


def _same_ids(source: Source, words: Array) -> bool:
    """Whether each part has the same ids, once, maybe in another order."""
    rows = Rows(source.table, len(words), frozenset({source.labels.origin, names.MODEL}))
    found = [rows.ids(name) for name in filter(names.is_id, source.table.visible)]
    count = len(words) // len(np.unique(words))
    known = [ids for ids in found if ids is not None and len(np.unique(ids)) == count]
    orders = [ids.argsort() for ids in known]
    return any(_alike(ids[o], words[o]) for ids, o in zip(known, orders, strict=True))


def _by_model(source: Source, column: str | None) -> Iterator[tuple[str, Array]]:
    """The name of each model, and its rows."""
    path, count = source.table.path, len(source.labels.values)
    if column is None:
        yield path.stem, np.arange(count)
        return
    words = texts(source.table.column(column))
    if words.size == 1:  # an npz file may name its model
        yield str(words.reshape(())), np.arange(count)
        return
    if words.shape != (count,):
        raise UserError(
            f"{path}: {column} has shape {words.shape}; ({count},) is needed, one name for each row"
        )
    for name in dict.fromkeys(words.tolist()):
        yield name, np.flatnonzero(words == name)


def _contradiction(source: Source, scores: Scores, asked: Asked) -> str:
    """Where the file's own predictions are not the most likely classes of its scores."""
    values = scores.values
    if values.ndim != 2 or scores.top_label_only:
        return ""
    classes = scores.classes or tuple(map(str, range(values.shape[1])))
    for guesses in predictions_of(source, asked):
        kept = ~guesses.abstained(source.labels)
        own = places(np.unique(guesses.words[kept]).tolist(), classes)
        used = guesses.column in (*scores.columns, *scores.beside)
        if used or not own or len(kept) != len(values):
            continue
        if not kept.all():
            return (
                f"{guesses.column} abstains in {(~kept).sum():,} of {len(kept):,} samples, whose "
                "scores are judged, too"
            )
        place = np.array([own[each] for each in guesses.words[kept].tolist()])
        rows = values[kept].astype(np.float64)
        if differ := float((rows.max(axis=1) - rows[np.arange(len(rows)), place] > _NEAR).mean()):
            share = f"{100 * differ:.0f}" if differ >= 0.01 else "less than 1"
            return f"{guesses.column} differs from the most likely class in {share} % of the rows"
    return ""


def _unseen(model: Predicted) -> tuple[str, ...]:
    """Classes that no label has."""
    if model.soft is not None or model.top_label_only:
        return ()
    counts = model.labels.bincount(minlength=len(model.classes)).tolist()
    unseen = [each for each, count in zip(model.classes, counts, strict=True) if not count]
    if len(unseen) > 3:
        return (f"{len(unseen):,} of {len(model.classes):,} classes have no label",)
    return (f"no label is {' or '.join(unseen)}",) if unseen else ()
