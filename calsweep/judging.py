"""Judges existing predictions; needs only PyTorch, NumPy and SciPy."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sweeps.errors import UserError
from sweeps.judging.facts import plain
from sweeps.judging.inputs import (
    Predicted,
    Scores,
    aligned,
    check_predicted,
    check_unlabelled,
)
from sweeps.judging.judgement import judge as judge_models
from sweeps.judging.names import kind_and_class
from sweeps.judging.sentences import comparison_rows, read_lines, summary, use_line
from trainables.data.readers.index_columns import index_columns


class Judgement:
    """An evaluation of predictions; ``facts`` has all of it as plain data."""

    def __init__(
        self, models: Sequence[Predicted], event: str | None = None, also: Sequence[str] = ()
    ) -> None:
        self._models = models
        self._found = judge_models(models, event, also=also)
        self.facts: dict[str, Any] = plain(self._found)

    @property
    def metrics(self) -> dict[str, dict[str, float]]:
        """Metrics of the first model by name, as ``value``, ``low`` and ``high`` (fractions)."""
        found: dict[str, dict[str, float]] = self.facts["models"][0]["metrics"]
        return found

    @property
    def recommended(self) -> str | None:
        """The recommended post-hoc scaling for the first model; None for soft labels."""
        scaling = self._found.models[0].scaling
        return None if scaling is None else scaling.recommended

    def scaling(self, probs: Any, *, logits: bool = False) -> Any:
        """Probabilities (N, K) after the first model's recommended scaling, as a NumPy array.

        `probs` are as in :func:`judge`, with the same classes. ``UserError`` if labels were soft.
        """
        from sweeps.judging.applied import NamedScaling

        first = self._models[0]
        named = NamedScaling.recommended(first, self._found.models[0])
        columns = frame_classes(probs)
        scores = Scores(probs, logits, columns or first.classes, named=bool(columns))
        return named.probabilities(check_unlabelled("predictions", scores)).numpy()

    def html(self) -> str:
        """The page that ``calsweep judge --format html`` writes; needs ``calsweep[judge]``."""
        from calsweep.extras import require

        require("Judgement.html", "judge")
        from sweeps.pages.judgement import render_judgement

        return render_judgement(self._found, self._models)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the page to a file; ``UserError`` if that fails."""
        from sweeps.messages.files import write_text

        write_text(self.html(), os.fspath(path))

    def __repr__(self) -> str:
        """The main findings."""
        parts = [*read_lines(self._found)]
        parts += [
            "\n".join((model.name, *(f"  {line}" for line in summary(model))))
            for model in self._found.models
        ]
        parts += [": ".join(row) for row in comparison_rows(self._found.comparison)]
        parts += use_line(self._found)
        return "\n".join(parts)


def judge(
    probs: Any,
    labels: Any,
    *,
    logits: bool = False,
    groups: Any = None,
    clusters: Any = None,
    classes: Sequence[str] = (),
    event: str | None = None,
    also: Sequence[str] = (),
) -> Judgement:
    """Judges existing predictions: metrics with intervals, scaling and comparisons.

    >>> judgement = calsweep.judge(probs, labels)
    >>> judgement.metrics["ece"]
    >>> calsweep.judge({"ours": p, "theirs": q}, labels).facts["comparison"]

    A notebook displays the result.

    Args:
        probs: Probabilities (N, K), or (N,) for class 1 of two: an array, tensor or nested list; or
            a data frame, whose columns name the classes. For several models on the same samples, a
            mapping from name to such predictions; the first is compared with each of the others.
        labels: True classes (N,): integers from 0, or class names. If the columns of a data frame
            have names, labels are compared with them, also integers. Rows (N, K) are shares of
            the classes, or votes for them: soft labels.
        logits: Whether `probs` contains logits; -inf masks a class, and (N,) are logits of class 1
            less those of class 0.
        groups: The group of each sample, (N,), to judge each group separately.
        clusters: The customer, patient … of each sample, (N,), if several samples are of one.
            Intervals and verdicts then take these as the unit; there are none with fewer than 10.
        classes: Names of the classes, in the order of the columns.
        event: The class, of two, that is the event; by default the less frequent one.
        also: Metrics besides the usual ones: ``canonical_kde_ece``, ``nll_aurc``, ``mean_iou``.

    Raises:
        UserError: Predictions or labels are not as above.
    """
    given = probs if isinstance(probs, Mapping) else {"predictions": probs}
    models = []
    first = next(iter(given), "")
    for name, each in given.items():
        columns = () if classes else frame_classes(each)
        what = f"{name}: predictions and labels"
        _check_order(what, each, labels, "labels.loc[predictions.index]")
        advice = f"{name}.loc[{first}.index]"
        _check_order(f"predictions of {name} and {first}", each, given[first], advice)
        scores = Scores(each, logits, classes or columns, named=bool(columns))
        models.append(check_predicted(str(name), scores, labels, groups, clusters))
    return Judgement(aligned(models), event, also)


def frame_classes(scores: Any) -> tuple[str, ...]:
    """Names of the classes from the columns of a data frame; empty for anything else.

    Raises:
        UserError: A column has the name of an index, so it holds no scores.
    """
    of_frame = getattr(scores, "columns", ()) if hasattr(scores, "to_numpy") else ()
    columns = tuple(map(str, getattr(scores, "column_names", of_frame)))  # of Arrow, or a frame
    if not columns:
        return ()
    if indexes := index_columns(columns):
        raise UserError(f"column {indexes[0]!r} numbers the rows and holds no scores: drop it")
    parts = [kind_and_class(each) for each in columns]
    alike = len({part[0] for part in parts if part}) == 1
    return tuple(part[1] for part in parts if part) if alike and all(parts) else columns


def _check_order(what: str, scores: Any, others: Any, advice: str) -> None:
    """Check that the indexes of two of pandas' objects do not contradict their order.

    Raises:
        UserError: They are the same rows in another order.
    """
    ours, theirs = (
        getattr(getattr(each, "index", None), "values", None) for each in (scores, others)
    )
    if ours is None or theirs is None or np.shape(ours) != np.shape(theirs):
        return
    if (ours != theirs).any() and {*ours.tolist()} == {*theirs.tolist()}:
        raise UserError(f"{what} have the same index in another order; pass {advice}")
