"""Predictions to judge, and checks for common mistakes in them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from sweeps.errors import UserError
from sweeps.judging.classes import are_numbered, class_indices, places
from sweeps.judging.names import shortened
from trainables.data.core.types import without_mask
from trainables.data.labelling.groups import check_none_missing, names_of_groups
from trainables.data.labelling.shares import ROUNDING, as_shares, tolerance_of_sums
from trainables.files.rows import Rows
from trainables.metrics._inputs import probabilities
from trainables.metrics.proper_scores import TINY, log_losses_of_logits, probability_floor

Array = npt.NDArray[Any]
_TOLERANCE = 1e-2  # tolerance of a row's sum, because files often have two or three decimals
_FEWEST = 2
_COARSE = 1e-3  # probability that the classes of a sample may lack by rounding


@dataclass(frozen=True)
class Scores:
    """Scores of a model, from a file or from memory.

    Attributes:
        values: (N, K), or (N,) for one score per sample.
        logits: Whether they are logits; None if it is not said.
        classes: Names of the classes; empty if they have none.
        named: Whether these are names of columns: then an integer label is a name, otherwise it may
            be a position.
        columns: The columns that they come from.
        beside: Further columns that were used.
        what: What they are, if it is not probabilities or logits of all classes.
        top_label_only: See :class:`Predicted`.
    """

    values: Any
    logits: bool | None = False
    classes: Sequence[str] = ()
    named: bool = False
    columns: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()
    what: str = ""
    top_label_only: bool = False


@dataclass(frozen=True)
class Read:
    """What was read as what: the kind of scores, and of what.

    `scores` and `labels` are where they come from, empty for arrays in memory; `samples` are those
    that are judged; `ignored` are the columns that were not used; `first` is what contradicts.
    """

    what: str
    scores: str
    labels: str
    samples: int
    notes: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    first: str = ""

    def __str__(self) -> str:
        """One line: ``probabilities of 3 classes from prob_0, prob_1, prob_2; …``."""
        return "; ".join(
            (
                *((self.first,) if self.first else ()),
                self.what + (f" from {self.scores}" if self.scores else ""),
                *((f"labels from {self.labels}",) if self.labels else ()),
                f"{self.samples:,} samples",
                *self.notes,
                *((f"ignored: {', '.join(self.ignored)}",) if self.ignored else ()),
            )
        )


@dataclass(frozen=True)
class Predicted:
    """The predictions of one model.

    Attributes:
        logits: (N, K) float; logarithms of the probabilities if no logits were given.
        probs: (N, K) float, each row sums to one within .001.
        labels: (N,) int64.
        classes: Names of the classes, K of them.
        read: What was read as what.
        groups: The group of each sample, N of them; None without groups.
        clusters: The cluster of each sample, (N,) int64; None if samples are independent.
        top_label_only: Whether only the predicted class and its probability are known. The other
            classes then share the rest equally, so only metrics of the top label have a meaning.
        floor: What a probability of 0 counts as in a logarithm; None if logits were given.
        soft: Shares of the classes of each sample, (N, K) float, if the labels are soft; ``labels``
            then are the classes with the largest shares.
    """

    name: str
    logits: Tensor
    probs: Tensor
    labels: Tensor
    classes: tuple[str, ...]
    read: Read
    groups: Array | None = None
    clusters: Tensor | None = None
    top_label_only: bool = False
    soft: Tensor | None = None
    floor: float | None = None

    @cached_property
    def log_losses(self) -> Tensor:
        """The log loss of each sample, float64 (N,)."""
        if self.floor is None:
            return log_losses_of_logits(self.logits, self.labels)
        return -self._of_label.clamp(min=self.floor).log()

    @property
    def at_floor(self) -> int:
        """Number of samples whose class has a probability of 0, which counts as the floor."""
        if self.floor is None:
            return 0
        return int((self._of_label <= self.floor).sum())

    @cached_property
    def has_zeros(self) -> bool:
        """Whether a class has a probability of 0 that counts as the floor."""
        return self.floor is not None and bool((self.probs <= 0).any())

    @cached_property
    def is_one_hot(self) -> bool:
        """Whether all probabilities are 0 or 1, as those of a tree or a vote."""
        return not bool(((self.probs > 0) & (self.probs < 1)).any())

    @property
    def _of_label(self) -> Tensor:
        return self.probs.gather(1, self.labels[:, None])[:, 0].double()


def predicted_of_rows(name: str, rows: Rows, classes: Sequence[str]) -> Predicted:
    """A network's predictions with one label for each sample, as `judge` takes them.

    Labels of `rows` are places of classes, also where the names of classes are numbers.
    """
    labels = np.array(classes)[rows.labels] if classes else rows.labels
    scores = Scores(rows.logits, logits=True, classes=classes)
    return check_predicted(name, scores, labels, clusters=rows.groups)


def check_unlabelled(name: str, scores: Scores) -> Predicted:
    """Like `check_predicted`, for predictions whose labels are unknown: they are arbitrary."""
    return check_predicted(name, scores, np.resize(np.array(scores.classes), len(scores.values)))


def check_predicted(
    name: str, scores: Scores, labels: Any, groups: Any = None, clusters: Any = None
) -> Predicted:
    """Check the predictions of a model and convert them; the arguments are those of `judge`.

    `name` is the model's in messages and tables. Values of scores may also be (N, 1). Without a
    word on whether they are logits, the values decide.

    Raises:
        UserError: Scores or labels are not as above. The message says what is wrong and what to do.
    """
    table = given = _floats(name, scores.values)
    logits = bool(table.min() < 0) if scores.logits is None else scores.logits
    single, count = table.ndim == 1, len(table)
    names = _names(name, scores.classes, 2 if single else table.shape[1])
    rows = _labels(name, labels, count, len(names))
    if not single and are_decisions(rows):
        scores = replace(scores, values=table, logits=logits, classes=names)
        return _of_decisions(name, scores, rows, groups, clusters)
    if single:
        table = np.stack([np.zeros_like(table) if logits else 1 - table, table], axis=1)
    if fault := _fault_of_logits(given) if logits else fault_of_probabilities(table):
        raise UserError(f"{name}: {fault}")
    soft = _shares(name, rows) if rows.ndim == 2 else None
    targets = torch.from_numpy(
        class_indices(name, rows, names, named=scores.named)
        if soft is None
        else rows.argmax(axis=1)
    )
    groups = None if groups is None else _groups(name, groups, count, soft)
    ids = None if clusters is None else _clusters(name, clusters, count)
    kind = "logits" if logits else "probabilities"
    what = f"{kind} of class {names[1]} of 2" if single else f"{kind} of {len(names)} classes"
    soft_note = ("soft labels",) if soft is not None else ()
    read = Read(scores.what or what, shortened(scores.columns, 6), "", count, soft_note)
    if logits:
        known = targets if soft is None else soft
        as_logits = torch.from_numpy(_without_infinity(name, table, known))
        probs, floor = probabilities(as_logits), None
    else:
        probs = _summing_to_one(torch.from_numpy(np.clip(table, 0, None)))
        floor = max(probability_floor(probs), TINY)
        as_logits = probs.clamp(min=floor).log()
    return Predicted(
        name,
        as_logits,
        probs,
        targets,
        names,
        read,
        groups,
        ids,
        scores.top_label_only,
        soft,
        floor,
    )


def _summing_to_one(probs: Tensor) -> Tensor:
    """Probabilities (N, K); rows that sum to one within rounding are not divided.

    Division would give equal probabilities different last digits, and bins and ranks need ties.
    """
    sums = probs.sum(dim=1, keepdim=True)
    return torch.where((sums - 1).abs() > ROUNDING, probs / sums, probs)


def are_decisions(labels: Array) -> bool:
    """Whether labels (N, K) are 0 or 1 for each of several labels of a sample, and not votes."""
    return labels.ndim == 2 and bool(((labels == 0) | (labels == 1)).all())


def _of_decisions(name: str, scores: Scores, rows: Array, groups: Any, clusters: Any) -> Predicted:
    """Several labels of each sample: every one is a decision of its own between 0 and 1."""
    table, (count, each) = scores.values, rows.shape
    if not scores.logits and are_probabilities(table):
        raise UserError(
            f"{name}: rows of the labels have other numbers of 1 than one, so samples have several "
            "labels; but each row of the predictions sums to one, as for classes that exclude one "
            "another"
        )
    found = check_predicted(
        name,
        Scores(table.reshape(-1), scores.logits, columns=scores.columns),
        rows.reshape(-1).astype(np.int64),
        np.tile(scores.classes, count) if groups is None else np.repeat(groups, each),
        np.repeat(np.arange(count) if clusters is None else np.asarray(clusters), each),
    )
    what = scores.what or f"{'logits' if scores.logits else 'probabilities'} of {each} labels"
    note = f"{each} labels of each sample, every one a decision of its own"
    return replace(found, read=replace(found.read, what=what, samples=count, notes=(note,)))


def log_losses_alike(ours: Predicted, theirs: Predicted) -> tuple[tuple[Tensor, Tensor], bool]:
    """Log losses of two models (N,) with one floor, and whether these models can be compared.

    A file that is rounded to .01 has 0 for .004 and 1 for .996. So probabilities of both models are
    at least the largest floor, and at most 1 less the floor. The NLL is unknown, and has no
    verdict, if a sample has a probability of 0 for its class, if all are 0 or 1, and if several
    classes of a sample may be rounded to 0.
    """
    models = (ours, theirs)
    floor = max((each.floor or 0.0 for each in models if each.has_zeros), default=0.0)
    known = not any(each.at_floor or each.is_one_hot or _rounds_several(each) for each in models)
    losses = _normalised_losses(ours), _normalised_losses(theirs)
    if floor == 0:
        return losses, known
    ends = -math.log1p(-floor), -math.log(floor)
    return (losses[0].clamp(*ends), losses[1].clamp(*ends)), known


def _normalised_losses(model: Predicted) -> Tensor:
    """Log losses as if each row summed to one: in half precision, sums have errors of .001."""
    if model.floor is None:
        return model.log_losses
    return model.log_losses + model.probs.double().sum(dim=1).log()


def _rounds_several(model: Predicted) -> bool:
    count, floor = len(model.classes), model.floor or 0.0
    return model.has_zeros and count > 2 and count * floor > _COARSE


def _groups(name: str, groups: Any, count: int, soft: Tensor | None) -> Array:
    if soft is not None:
        raise UserError(f"{name}: groups need one label for each sample, not soft labels")
    try:
        return names_of_groups("groups", groups, count)[0]
    except ValueError as error:
        raise UserError(f"{name}: {error}") from None


def _clusters(name: str, clusters: Any, count: int) -> Tensor:
    try:
        found, missing = names_of_groups("clusters", clusters, count)
        check_none_missing("cluster", missing)
    except ValueError as error:
        raise UserError(f"{name}: {error}") from None
    values, numbers = np.unique(found, return_inverse=True)
    if len(values) == 1:
        raise UserError(f"{name}: all samples are of one cluster, {str(values[0])!r}")
    return torch.from_numpy(numbers)


def taken(model: Predicted, rows: Tensor) -> Predicted:
    """The samples of these rows, by place."""

    def of(each: Tensor | None) -> Tensor | None:
        return None if each is None else each[rows]

    return replace(
        model,
        logits=model.logits[rows],
        probs=model.probs[rows],
        labels=model.labels[rows],
        groups=None if model.groups is None else model.groups[rows.numpy()],
        clusters=of(model.clusters),
        soft=of(model.soft),
    )


def aligned(models: Sequence[Predicted]) -> list[Predicted]:
    """The models with their classes in the order of the first, matched by name.

    Raises:
        UserError: The classes of two models have different names.
    """
    first, *others = models
    return [first, *(_in_order_of(first, other) for other in others)]


def _in_order_of(first: Predicted, model: Predicted) -> Predicted:
    if len(model.classes) != len(first.classes):
        return model  # a comparison refuses these
    if (order := places(first.classes, model.classes)) is None:
        if are_numbered(first.classes) or are_numbered(model.classes):
            return model  # the columns of one have no names, so positions count
        raise UserError(
            f"{model.name} has the classes {shortened(model.classes)}, {first.name} "
            f"{shortened(first.classes)}; models are compared on the same classes"
        )
    columns = torch.tensor(list(order.values()))
    if torch.equal(columns, torch.arange(len(columns))):
        return model
    return replace(
        model,
        logits=model.logits[:, columns],
        probs=model.probs[:, columns],
        labels=columns.argsort()[model.labels],
        soft=None if model.soft is None else model.soft[:, columns],
        classes=first.classes,
    )


def _names(name: str, classes: Sequence[str], count: int) -> tuple[str, ...]:
    names = tuple(map(str, classes)) or tuple(map(str, range(count)))
    if len(names) != count:
        raise UserError(f"{name}: {len(names)} names for {count} classes")
    return names


def _floats(name: str, scores: Any) -> Array:
    """Scores (N, K), or (N,) also from (N, 1)."""
    if isinstance(scores, Tensor):
        scores = scores.detach().cpu()
        scores = (scores.float() if scores.dtype == torch.bfloat16 else scores).numpy()
    try:
        table = without_mask(scores, "predictions")
        wide = table.dtype.kind == "f" and table.dtype.itemsize >= 8  # maybe long double
        table = table.astype(np.float64 if wide else np.float32, copy=False)
    except (TypeError, ValueError):
        raise UserError(f"{name}: predictions must be numbers, of one length in each row") from None
    if table.ndim == 2 and table.shape[1] == 1:
        table = table[:, 0]
    if table.ndim not in (1, 2) or table.shape[1:] == (0,):
        raise UserError(
            f"{name}: predictions have shape {table.shape}; allowed: (N, K) with K of at least 2, "
            "or (N,), scores of class 1 of two"
        )
    if len(table) < _FEWEST:
        raise UserError(f"{name}: has {len(table)} samples; at least {_FEWEST} are needed")
    if not table.max() < np.inf:  # -inf masks a class of logits
        _refuse_rows(name, ~(table < np.inf))
    return np.require(table, requirements=("C", "W"))  # as tensors need it


def _refuse_rows(name: str, bad: Array) -> None:
    rows = bad.reshape(len(bad), -1).any(axis=1)
    raise UserError(
        f"{name}: row {int(rows.argmax())} (from 0) of the predictions has NaN or infinity, "
        f"as {int(rows.sum())} rows have"
    )


def _without_infinity(name: str, logits: Array, labels: Tensor) -> Array:
    """Logits whose masked classes (-inf) have a probability of 0 at every temperature up to 100.

    That of a label, (N,) or shares (N, K), has the logarithm of the smallest number instead.
    """
    masked = np.isneginf(logits)
    if not masked.any():
        return logits
    highest = logits.max(axis=1, keepdims=True)
    if not np.isfinite(highest).all():
        _refuse_rows(name, ~np.isfinite(highest))
    least, never = (np.log(np.finfo(each).tiny) for each in (logits.dtype, np.float64))
    rows = labels.numpy()
    own = rows > 0 if rows.ndim == 2 else np.arange(logits.shape[1]) == rows[:, None]
    return np.where(masked, highest + np.where(own, least, 100 * never), logits).astype(
        logits.dtype
    )


def _labels(name: str, labels: Any, count: int, num_classes: int) -> Array:
    """Labels (N,), also from (N, 1), or from (N, K) rows with a single 1; else shares (N, K)."""
    if isinstance(labels, Tensor):
        labels = labels.detach().cpu().numpy()
    try:
        values = without_mask(labels, "labels")
    except ValueError as error:
        raise UserError(f"{name}: {error}") from None
    if values.ndim == 2 and len(values) == count:
        ones = values == 1
        if values.shape[1] == 1:
            values = values[:, 0]
        elif (ones | (values == 0)).all() and (ones.sum(axis=1) == 1).all():
            values = ones.argmax(axis=1)
    if values.shape not in ((count,), (count, num_classes)):
        raise UserError(
            f"{name}: labels have shape {values.shape}; ({count},) is needed, one for each row of "
            "the predictions"
        )
    return values


def _shares(name: str, rows: Array) -> Tensor:
    """Soft labels as shares, (N, K) float64; whole numbers are votes."""
    shares, wrong = as_shares(rows if rows.dtype.kind in "iuf" else np.full(rows.shape, np.nan))
    if wrong.any():
        raise UserError(
            f"{name}: labels have shape {rows.shape}, but are neither shares of the classes, which "
            "sum to 1 in each row, nor numbers of votes, whose totals are similar"
        )
    return torch.from_numpy(shares)


PERCENT = "each row sums to 100: these are percent; divide by 100"


def are_percent(table: Array) -> bool:
    sums = table.sum(axis=1)
    return bool(table.min() >= 0 and np.abs(sums - 100).max() <= 100 * _TOLERANCE)


def are_probabilities(table: Array) -> bool:
    return bool(
        table.min() >= 0 and np.abs(table.sum(axis=1) - 1).max() <= tolerance_of_sums(table)
    )


def _fault_of_logits(table: Array) -> str:
    """Why logits (N, K) are none; empty if they may be, and for one score per sample, (N,)."""
    if table.ndim == 2 and are_probabilities(table):
        return (
            "these logits look like probabilities (each row sums to one); pass them as "
            "probabilities"
        )
    return PERCENT if table.ndim == 2 and are_percent(table) else ""


def fault_of_probabilities(table: Array) -> str:
    """Why the rows of a table cannot be probabilities; empty if they can."""
    low, high, sums = float(table.min()), float(table.max()), table.sum(axis=1)
    if are_percent(table):
        return PERCENT
    if low < -1e-5 or high > 1 + 1e-5:
        return (
            f"values run from {low:.4g} to {high:.4g}; probabilities lie between 0 and 1. If these "
            "are logits, say so: `logits=true`, or a key or column `logits`"
        )
    worst = int(np.abs(sums - 1).argmax())
    if abs(float(sums[worst]) - 1) > tolerance_of_sums(table):
        return (
            f"row {worst} (from 0) sums to {float(sums[worst]):.4g}; the probabilities of a sample "
            "sum to 1. If some columns are no scores of classes, name those that are: "
            "`scores=NAME,NAME,…`"
        )
    return ""
