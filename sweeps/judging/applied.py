"""Applies what a judgement recommends: scalings as files of numbers, and scaled predictions."""

from __future__ import annotations

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
from sweeps.judging.inputs import Predicted, check_predicted
from sweeps.judging.names import shortened
from sweeps.judging.proposals import Labels, Source
from sweeps.judging.tables import Asked, open_table
from trainables.posthoc.chosen import fit_scaling
from trainables.posthoc.scaling import Scaling, in_blocks


@dataclass(frozen=True)
class NamedScaling:
    """A fitted scaling of logits (N, K), and the names of the K classes in their order."""

    scaling: Scaling
    classes: tuple[str, ...]

    @classmethod
    def recommended(cls, model: Predicted) -> NamedScaling:
        """The one that is recommended for these predictions, fitted on all of them.

        Raises:
            UserError: Labels are soft, or only the top label is known.
        """
        if model.soft is not None or model.top_label_only:
            raise UserError(
                f"{model.name}: a scaling needs the probabilities of all classes and one label for "
                "each sample"
            )
        scaling, _ = fit_scaling(model.logits, model.labels, clusters=model.clusters)
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
        order = places(model.classes, self.classes)
        if order is None or len(model.classes) != len(self.classes):
            raise UserError(
                f"{model.name} has the classes {shortened(model.classes)}, the scaling "
                f"{shortened(self.classes)}"
            )
        own = torch.tensor(list(order.values())).argsort()  # the scaling's order
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
    labels = np.array(model.classes)[model.labels.numpy()]
    try:
        if path.suffix == ".npz":
            arrays = {"probs": probs.numpy(), "classes": np.array(model.classes)}
            np.savez(path, **(arrays | ({"labels": labels} if labelled else {})))
        elif path.suffix == ".csv":
            import csv

            with path.open("w", newline="") as file:
                writer = csv.writer(file)
                names = [f"p({each})" for each in model.classes]
                writer.writerow([*names, *(["label"] if labelled else [])])
                for row, label in zip(probs.tolist(), labels.tolist(), strict=True):
                    writer.writerow([*row, *([label] if labelled else [])])
        else:
            raise UserError(f"{path}: allowed endings: .npz, .csv")
    except OSError as error:
        raise UserError(f"{path}: cannot be written: {error}") from None
