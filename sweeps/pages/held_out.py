"""One classifier on the test split: per class, by coverage, most confident errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sweeps.pages.chart import COLOURS, DIM, Axis, Chart, Mark, Row, Stroke, axis
from sweeps.pages.predictions import probabilities, risk_coverage, top_label
from trainables.files.rows import Rows

_MOST_CLASSES = 20
_MOST_MISTAKES = 10
_MOST_PAIRS = 15
_POINTS = 300  # per line


@dataclass(frozen=True)
class OfClass:
    """The samples that are predicted as one class; `right` is the share of correct predictions."""

    name: str
    count: int
    confidence: float
    right: float


@dataclass(frozen=True)
class Mistake:
    """A misclassified sample: its index in the test split, and what was `said` of it."""

    row: int
    said: str
    true: str
    confidence: float


def by_class(probs: npt.ArrayLike, labels: npt.ArrayLike, names: Sequence[str]) -> list[OfClass]:
    """Mean confidence and accuracy per predicted class, from probs (N, K) and labels (N,)."""
    (confidence, predicted), truth = top_label(probs), np.asarray(labels)
    found = []
    for index, name in enumerate(names):
        own = predicted == index
        if count := int(own.sum()):
            right = float((truth[own] == index).mean())
            found.append(OfClass(name, count, float(confidence[own].mean()), right))
    return found


def by_label(probs: npt.ArrayLike, labels: npt.ArrayLike, about: Sequence[str]) -> list[OfClass]:
    """Mean confidence and accuracy per label.

    Args:
        probs: (N · L, 2) float, the decisions on a sample next to each other.
        labels: (N · L,) integers.
        about: Names of the L labels.
    """
    confidence, predicted = top_label(probs)
    right = predicted == np.asarray(labels)
    columns = (each.reshape(-1, len(about)) for each in (confidence, right))
    sure, hits = (column.mean(axis=0).tolist() for column in columns)
    count = len(right) // len(about)
    return [OfClass(name, count, *each) for name, *each in zip(about, sure, hits, strict=True)]


def confusion(probs: npt.ArrayLike, labels: npt.ArrayLike) -> list[list[int]]:
    """Confusion matrix of counts: true classes in rows, predicted classes in columns."""
    each = np.asarray(probs)
    classes = each.shape[1]
    pairs = np.bincount(np.asarray(labels) * classes + each.argmax(axis=1), minlength=classes**2)
    counts: list[list[int]] = pairs.reshape(classes, classes).tolist()
    return counts


def confused_pairs(
    counts: Sequence[Sequence[int]], names: Sequence[str]
) -> list[tuple[str, str, int]]:
    """The most frequent errors: true class, predicted class, count."""
    pairs = [
        (names[i], names[j], count)
        for i, row in enumerate(counts)
        for j, count in enumerate(row)
        if i != j and count
    ]
    return sorted(pairs, key=lambda pair: -pair[2])[:_MOST_PAIRS]


def mistakes(rows: Rows, names: Sequence[str], about: Sequence[str] = ()) -> list[Mistake]:
    """The most confident errors, most confident first; of similar rows of a sample, only one.

    Args:
        rows: The predictions.
        names: The K class names.
        about: Label names of the decisions on a sample; empty if there is one decision.
    """
    (confidence, predicted), truth = top_label(probabilities(rows.logits)), rows.labels
    cluster_size = rows.cluster_size
    wrong = np.flatnonzero(predicted != truth)
    wrong = wrong[np.argsort(-confidence[wrong], kind="stable")]
    if cluster_size > 1:
        wrong = wrong[np.sort(np.unique(wrong // cluster_size, return_index=True)[1])]
    found = []
    for row in wrong[:_MOST_MISTAKES].tolist():
        sample, place = divmod(row // cluster_size, max(1, len(about)))
        prefix = f"{about[place]}: " if about else ""
        said, true = (prefix + names[int(each[row])] for each in (predicted, truth))
        found.append(Mistake(sample, said, true, float(confidence[row])))
    return found


def class_chart(classes: Sequence[OfClass]) -> Chart:
    """Mean confidence and accuracy per class; if there are many, those with the widest gaps."""
    shown = sorted(classes, key=lambda c: -c.count * abs(c.confidence - c.right))[:_MOST_CLASSES]
    ends = [end for c in shown for end in (c.confidence, c.right)]
    chart = Chart(
        "Mean confidence and accuracy of each predicted class on the test split",
        axis("mean confidence and accuracy", ends),
        Axis("", 0, len(shown) + 1, silent=True),
        height=64 + 24 * len(shown),
        left=110,
    )
    sure, right = Mark(COLOURS[1], "diamond"), Mark(COLOURS[0])
    for row, each in enumerate(shown):
        height = float(len(shown) - row)
        tip = (
            f"{each.name}: {each.count} samples, confidence {each.confidence:.1%}, "
            f"accuracy {each.right:.1%}"
        )
        chart.line([each.confidence, each.right], [height] * 2, Stroke(DIM, 1))
        chart.point(each.confidence, height, sure, tip)
        chart.point(each.right, height, right, tip)
        chart.add(Row(height, each.name))
    chart.name(sure, "mean confidence")
    chart.name(right, "accuracy")
    return chart


def coverage_chart(curves: Mapping[str, tuple[npt.ArrayLike, npt.ArrayLike]]) -> Chart:
    """Risk–coverage curves: error of the most confident samples against their share.

    `curves` are probabilities (N, K) and labels (N,) by name.
    """
    risks = {name: risk_coverage(*each).tolist() for name, each in curves.items()}
    highest = max(max(risk) for risk in risks.values())
    chart = Chart(
        "Risk–coverage curve on the test split",
        Axis("coverage: share of the most confident samples", 0.0, 1.0),
        Axis("error (risk)", 0.0, 1.1 * highest or 0.01),
    )
    for (name, risk), colour in zip(risks.items(), COLOURS, strict=False):
        step = max(1, len(risk) // _POINTS)
        places = sorted({*range(0, len(risk), step), len(risk) - 1})
        xs = [(place + 1) / len(risk) for place in places]
        chart.line(xs, [risk[place] for place in places], Stroke(colour), name)
        chart.name(Stroke(colour), name)
    return chart
