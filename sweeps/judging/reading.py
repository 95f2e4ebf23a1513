"""Reading files of predictions: npz, npy, CSV and Parquet."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sweeps.errors import UserError, first_line
from sweeps.judging.inputs import Predicted, check_predicted

Array = npt.NDArray[Any]

_PROBS = ("probs", "probabilities", "proba", "p", "prob", "probability")
_LOGITS = ("logits", "logit")
_LABELS = ("labels", "label", "y", "y_true", "target", "targets")
_MODEL = "model"
_SUFFIXES = (".npz", ".npy", ".csv", ".parquet")
# p(cat), prob_0, probs.3, logit 7: one column per class.
_ONE_CLASS = re.compile(
    r"(?P<kind>" + "|".join(sorted((*_PROBS, *_LOGITS), key=len, reverse=True)) + r")"
    r"(?:\((?P<inside>.+)\)|[ _.:-](?P<after>.+)|(?P<number>\d+))"
)


def read_predictions(
    files: Sequence[str],
    *,
    logits: bool = False,
    labels: str | None = None,
    label: str | None = None,
    group: str | None = None,
    model: str | None = None,
) -> list[Predicted]:
    """The predictions of all models in these files.

    Args:
        files: Paths. A model is named after its file, or by a column.
        logits: Whether scores are logits if their name does not say.
        labels: An npy file of labels, for files without labels.
        label: Key or column of the labels; by default one of the usual names.
        group: Key or column of each sample's group.
        model: Key or column that names the model; by default ``model``, if it exists.

    Raises:
        UserError: A file cannot be read, or its content cannot be judged. The message says why.
    """
    shared = None if labels is None else _labels_of(Path(labels))
    found = []
    for file in files:
        path = Path(file)
        columns = _columns(path)
        scores, kind, classes = _scores(path, columns)
        targets = _targets(path, columns, label, shared)
        groups = _column(path, columns, group)
        split_by = model or (_MODEL if _MODEL in columns else None)
        given = None if kind is None else kind in _LOGITS
        is_logits = True if logits else given
        for name, rows in _by_model(path, _column(path, columns, split_by)):
            found.append(
                check_predicted(
                    name,
                    scores[rows],
                    targets[rows],
                    logits=is_logits,
                    classes=classes,
                    groups=None if groups is None else groups[rows],
                )
            )
    return found


def _columns(path: Path) -> Mapping[str, Array]:
    """The arrays of a file by name; the array of an npy file has an empty name."""
    if path.suffix not in _SUFFIXES:
        raise UserError(f"{path}: is not a file of predictions; allowed: {', '.join(_SUFFIXES)}")
    try:
        if path.suffix in (".npz", ".npy"):
            loaded = np.load(path, allow_pickle=False)
            return dict(loaded) if path.suffix == ".npz" else {"": loaded}
        return _table(path)
    except (OSError, ValueError) as error:  # pyarrow raises ValueErrors
        raise UserError(f"{path}: cannot be read: {first_line(error)}") from None


def _table(path: Path) -> dict[str, Array]:
    import pyarrow as pa
    import pyarrow.parquet as pq
    from pyarrow import csv

    table = csv.read_csv(path) if path.suffix == ".csv" else pq.ParquetFile(path).read()
    found = {}
    for name in table.column_names:
        column = table[name].combine_chunks()
        if column.null_count:
            raise ValueError(f"column {name} has {column.null_count} empty cells")
        if pa.types.is_nested(column.type):
            flat = column.flatten().to_numpy(zero_copy_only=False)
            if len(column) == 0 or len(flat) % len(column):
                raise ValueError(f"column {name} has rows of different lengths")
            found[name] = flat.reshape(len(column), -1)
        else:
            found[name] = column.to_numpy(zero_copy_only=False)
    return found


def _scores(path: Path, columns: Mapping[str, Array]) -> tuple[Array, str | None, tuple[str, ...]]:
    """Scores (N, K) or (N,), whether their name says that they are logits, and class names."""
    if "" in columns:
        return columns[""], None, ()
    for name in (*_PROBS, *_LOGITS):
        if name in columns:
            return columns[name], name, ()
    found: dict[str, dict[str, Array]] = {}
    for name, column in columns.items():
        if match := _ONE_CLASS.fullmatch(name):
            of_class = match["inside"] or match["after"] or match["number"]
            found.setdefault(match["kind"], {})[of_class] = column
    if len(found) != 1:
        what = f"both {' and '.join(found)}" if found else "no predictions"
        raise UserError(
            f"{path}: holds {what} (it has {', '.join(list(columns)[:12]) or 'nothing'}); needed: "
            "`probs` or `logits`, or a column for each class such as prob_0, prob_1 or logit_0"
        )
    ((kind, by_class),) = found.items()
    numbered = all(name.isdigit() for name in by_class)
    names = sorted(by_class, key=int) if numbered else list(by_class)
    scores = np.stack([by_class[name] for name in names], axis=1)
    return scores, kind, () if numbered else tuple(names)


def _targets(
    path: Path, columns: Mapping[str, Array], label: str | None, shared: Array | None
) -> Array:
    if label is not None:
        found = _column(path, columns, label)
        assert found is not None
        return found
    if shared is not None:
        return shared
    for name in _LABELS:
        if name in columns:
            return columns[name]
    raise UserError(
        f"{path}: holds no labels; needed: a key or column {' or '.join(_LABELS[:3])}, --label "
        "NAME, or --labels FILE.npy"
    )


def _labels_of(path: Path) -> Array:
    columns = _columns(path)
    if "" not in columns:
        raise UserError(f"--labels {path}: must be an npy file of labels (N,)")
    return columns[""]


def _column(path: Path, columns: Mapping[str, Array], name: str | None) -> Array | None:
    if name is None:
        return None
    if name not in columns:
        raise UserError(f"{path}: has no {name!r}; it has {', '.join(filter(None, columns))}")
    return columns[name]


def _by_model(path: Path, names: Array | None) -> list[tuple[str, Any]]:
    if names is None:
        return [(path.stem, slice(None))]
    words = names.astype(str)
    return [(name, words == name) for name in dict.fromkeys(words.tolist())]
