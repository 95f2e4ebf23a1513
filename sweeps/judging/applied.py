"""Applies what a judgement recommends: scalings as files of numbers, and scaled predictions."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from sweeps.errors import UserError
from sweeps.judging.classes import places
from sweeps.judging.deciding import decided
from sweeps.judging.facts import Judged
from sweeps.judging.inputs import Predicted, Scores, check_unlabelled
from sweeps.judging.names import shortened
from sweeps.judging.proposals import Labels, Source
from sweeps.judging.tables import Asked, open_table
from sweeps.judging.thresholds import Decided
from sweeps.messages.files import write_bytes, write_text
from trainables.contract.config import ScalingWay
from trainables.posthoc.chosen import fit_scaling
from trainables.posthoc.scaling import Scaling, in_blocks

_ABSTAIN = "abstain"


@dataclass(frozen=True)
class Decision:
    """What to decide: the event from a probability of `threshold`; nothing below a confidence."""

    event: str | None = None
    threshold: float | None = None
    accept: float | None = None

    @classmethod
    def of(cls, found: Decided | None) -> Decision | None:
        """That of a judgement; None if it has none."""
        if found is None:
            return None
        cost, accepted = found.cost, found.accepted
        event, threshold = (None, None) if cost is None else (cost.event, cost.threshold)
        return cls(event, threshold, None if accepted is None else accepted.threshold)

    def classes(self, probs: Tensor, classes: Sequence[str]) -> list[str]:
        """The class of each sample, or ``abstain``, from probabilities (N, K)."""
        confidence, winner = probs.max(dim=1)
        if self.event is not None and self.threshold is not None:
            index = classes.index(self.event)
            winner = torch.where(probs[:, index] >= self.threshold, index, 1 - index)
        sure = confidence >= (self.accept or 0.0)
        both = zip(winner.tolist(), sure.tolist(), strict=True)
        return [classes[place] if yes else _ABSTAIN for place, yes in both]


@dataclass(frozen=True)
class NamedScaling:
    """A fitted scaling of logits (N, K), and the names of the K classes in their order.

    `frequencies` are those of the classes where it was fitted; empty if they are unknown.
    """

    scaling: Scaling
    classes: tuple[str, ...]
    frequencies: tuple[float, ...] = ()
    decision: Decision | None = None

    @classmethod
    def recommended(cls, model: Predicted, judged: Judged) -> NamedScaling:
        """The one that its judgement recommends for a model, fitted on all samples.

        Raises:
            UserError: Labels are soft, or only the top label is known.
        """
        if judged.scaling is None:
            raise UserError(
                f"{model.name}: a scaling needs the probabilities of all classes and one label for "
                "each sample"
            )
        way = ScalingWay(judged.scaling.recommended)
        scaling, _ = fit_scaling(model.logits, model.labels, way, model.clusters)
        decision = Decision.of(judged.decided)
        return cls(scaling, model.classes, frequencies_of(model), decision)

    @classmethod
    def read(cls, path: Path) -> NamedScaling:
        """Read what :meth:`text` gave, or that of an exported classifier; UserError if it is none.

        An exported classifier is its folder.
        """
        try:
            kept = json.loads((path / "model.json" if path.is_dir() else path).read_text())
            decision = kept.get("decision")
            return cls(
                Scaling.from_json(kept.get("scaling", kept)),
                tuple(map(str, kept["classes"])),
                tuple(map(float, kept.get("frequencies") or ())),
                None if decision is None else Decision(**decision),
            )
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise UserError(
                f"{path}: is no scaling that `calsweep judge` saved ({error})"
            ) from None

    def text(self) -> str:
        """JSON of numbers and words."""
        decision = {} if self.decision is None else {"decision": asdict(self.decision)}
        names = {"classes": self.classes, "frequencies": self.frequencies}
        return json.dumps({**self.scaling.to_json(), **names, **decision}, indent=1)

    def probabilities(self, model: Predicted) -> Tensor:
        """Scaled probabilities (N, K), float64, with the classes in the model's order.

        Raises:
            UserError: The model has other classes.
        """
        return self.of_logits(model.logits.double(), model.classes, model.name)

    def of_logits(self, logits: Tensor, classes: Sequence[str], name: str) -> Tensor:
        """Scaled probabilities (N, K) of logits, float64, of these classes, see `class_order`."""
        own = torch.tensor(class_order(self.classes, classes, name))
        return in_blocks(self.scaling, logits[:, own]).softmax(dim=1)[:, own.argsort()]


def class_order(wanted: Sequence[str], classes: Sequence[str], name: str) -> list[int]:
    """The place of each wanted class among others; UserError, with a name, if they differ."""
    order = places(wanted, classes)
    if order is None or len(classes) != len(wanted):
        raise UserError(
            f"{name} has the classes {shortened(classes)}, the scaling {shortened(wanted)}"
        )
    return list(order.values())


def frequencies_of(model: Predicted) -> tuple[float, ...]:
    """Of the classes among a model's samples."""
    counts = model.labels.bincount(minlength=len(model.classes))
    return tuple((counts.double() / len(model.labels)).tolist())


def read_unlabelled(path: Path, classes: Sequence[str]) -> Predicted:
    """Predictions of these classes from a file whose labels, if it has any, are not read.

    Raises:
        UserError: The file cannot be read as such.
    """
    table = open_table(path)
    count = max((len(table.column(each)) for each in table.visible[:1]), default=0)

    def found(labels: npt.NDArray[Any]) -> Scores:
        source = Source(table, Labels.of("", np.resize(labels, count)))
        return decided([source], Asked()).scores

    try:
        scores = found(np.array(classes))  # names of columns or classes, if the file has any
    except UserError as error:
        try:
            scores = found(np.arange(len(classes)))
        except UserError:
            raise error from None
    return check_unlabelled(path.stem, replace(scores, classes=scores.classes or classes))


def write_probabilities(path: Path, probs: Tensor, model: Predicted, *, labelled: bool) -> None:
    """Write probabilities as npz, or as CSV with a column for each class.

    Raises:
        UserError: The file cannot be written, or has another ending.
    """
    classes = np.array(model.classes)
    labels = classes[model.labels.numpy()]
    if path.suffix == ".npz":
        stream = io.BytesIO()
        arrays = {"probs": probs.numpy(), "classes": classes}
        np.savez(stream, **(arrays | ({"labels": labels} if labelled else {})))
        write_bytes(stream.getvalue(), str(path))
    elif path.suffix == ".csv":
        text = io.StringIO(newline="")
        rows: list[list[object]] = [[f"p({each})" for each in model.classes], *probs.tolist()]
        if labelled:
            last = ["label", *labels.tolist()]
            rows = [[*row, label] for row, label in zip(rows, last, strict=True)]
        csv.writer(text).writerows(rows)
        write_text(text.getvalue(), str(path))
    else:
        raise UserError(f"{path}: allowed endings: .npz, .csv")
