"""What a sweep's data allow to be told, before the money is spent."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np

from sweeps.formatting import metric_heading, metric_of
from sweeps.sweep_file.schema import SweepFile

if TYPE_CHECKING:
    from trainables.data.base import Dataset

_USUAL_DIFFERENCE = 0.02  # of the ECE of two calibration losses, in most rows of the papers' tables
_COMPARED = ("ece", "adaptive_ece")
_UNITS = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"))


def data_facts(sweep: SweepFile, dataset: Dataset) -> dict[str, str]:
    """How much data there are, the model for them, and what can be told apart, by heading.

    Args:
        sweep: The sweep, its model named.
        dataset: Its data.
    """
    from trainables.metrics import detectable_difference
    from trainables.trial import validation_parts

    sizes = ", ".join(
        f"{len(split):,} {name}"
        for name, split in (
            ("training", dataset.train),
            ("validation", dataset.validation),
            ("test", dataset.test),
        )
    )
    judging, _ = validation_parts(dataset, sweep.training.adapt_share)
    count = len(judging)
    kinds = f"{dataset.num_classes} classes"
    if dataset.task.names:
        kinds = f"{len(dataset.task.names)} labels, each there or not"
    told = f"{sizes} samples of {kinds}"
    if dataset.task.cluster_size > 1:
        told = (
            f"{sizes} images, each pixel of one of {kinds}; judged by {dataset.task.cluster_size} "
            "pixels of each"
        )
    if dataset.train.soft is not None:
        told += ", labelled with probabilities; what is measured, is by labels drawn from them"
    if dataset.train.weights is not None:
        told += "; training samples are weighted"
    facts = {"data": told, "held": _held(dataset)}
    if sweep.trainable is None:
        facts["model"] = sweep.model.name
    several = dataset.task.decisions * dataset.task.cluster_size > 1
    if metric_of(sweep.objective) not in _COMPARED or several:
        return facts
    smallest = detectable_difference(count)
    told = (
        f"differences in {metric_heading('ece')} of {smallest:.3f} or more, by {count:,} "
        "validation samples (at an error of 0.1)"
    )
    if smallest > _USUAL_DIFFERENCE:
        told += (
            f"; calibration losses mostly differ by less than {_USUAL_DIFFERENCE:g}: expect "
            "“not supported”, or give dataset.validation more samples"
        )
    return {**facts, "can tell apart": told}


def _held(dataset: Dataset) -> str:
    """Where the samples are, and how much they take."""
    splits = (dataset.train, dataset.validation, dataset.test)
    decoded = _bytes(sum(split.inputs.nbytes for split in splits))
    files = sorted({each.inputs.path for each in splits if not isinstance(each.inputs, np.ndarray)})
    if not files:
        return f"in memory, {decoded}"
    encoded = _bytes(sum(os.path.getsize(file) for file in files))
    return f"streamed from the disk, {encoded} (decoded {decoded}): {', '.join(files)}"


def _bytes(number: int) -> str:
    size, unit = next(((s, u) for s, u in _UNITS if number >= s), _UNITS[-1])
    return f"{number / size:,.1f} {unit}"
