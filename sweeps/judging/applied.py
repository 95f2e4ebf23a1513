"""Applies what a judgement recommends: scalings as files of numbers, and scaled predictions."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from sweeps.errors import UserError
from sweeps.judging.classes import places
from sweeps.judging.deciding import decided
from sweeps.judging.facts import Judged
from sweeps.judging.inputs import Predicted, check_predicted
from sweeps.judging.names import shortened
from sweeps.judging.proposals import Labels, Source
from sweeps.judging.tables import Asked, open_table
from sweeps.messages.files import write_bytes, write_text
from trainables.contract.config import ScalingWay
from trainables.posthoc.chosen import fit_scaling
from trainables.posthoc.scaling import Scaling, in_blocks


@dataclass(frozen=True)
class NamedScaling:
    """A fitted scaling of logits (N, K), and the names of the K classes in their order."""

    scaling: Scaling
    classes: tuple[str, ...]

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
        return cls(scaling, model.classes)

    @classmethod
    def read(cls, path: Path) -> NamedScaling:
        """Read what :meth:`text` gave; UserError if the file is none."""
        try:
            kept = json.loads(path.read_text())
            return cls(Scaling.from_json(kept), tuple(map(str, kept["classes"])))
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise UserError(
                f"{path}: is no scaling that `calsweep judge --save-scaling` wrote ({error})"
            ) from None

    def text(self) -> str:
        """JSON of numbers and words."""
        return json.dumps({**self.scaling.to_json(), "classes": list(self.classes)}, indent=1)

    def probabilities(self, model: Predicted) -> Tensor:
        """Scaled probabilities (N, K), float64, with the classes in the model's order.

        Raises:
            UserError: The model has other classes.
        """
        order = places(self.classes, model.classes)
        if order is None or len(model.classes) != len(self.classes):
            raise UserError(
                f"{model.name} has the classes {shortened(model.classes)}, the scaling "
                f"{shortened(self.classes)}"
            )
        own = torch.tensor(list(order.values()))
        scaled = in_blocks(self.scaling, model.logits.double()[:, own]).softmax(dim=1)
        return scaled[:, own.argsort()]


def read_unlabelled(path: Path, classes: Sequence[str]) -> Predicted:
    """Predictions of these classes from a file whose labels, if it has any, are not read.

    Raises:
        UserError: The file cannot be read as such.
    """
    table = open_table(path)
    count = max((len(table.column(each)) for each in table.visible[:1]), default=0)
    labels = np.resize(np.array(classes), count)  # of any of the classes: they name the columns
    scores = decided([Source(table, Labels.of("", labels))], Asked()).scores()
    return check_predicted(
        path.stem,
        scores.values,
        labels if scores.named else np.resize(np.arange(len(classes)), count),
        logits=scores.logits,
        classes=scores.classes or classes,
        named=scores.named,
    )


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
        write_bytes(stream.getvalue(), str(path), "")
    elif path.suffix == ".csv":
        text = io.StringIO(newline="")
        rows: list[list[object]] = [[f"p({each})" for each in model.classes], *probs.tolist()]
        if labelled:
            last = ["label", *labels.tolist()]
            rows = [[*row, label] for row, label in zip(rows, last, strict=True)]
        csv.writer(text).writerows(rows)
        write_text(text.getvalue(), str(path), "")
    else:
        raise UserError(f"{path}: allowed endings: .npz, .csv")
