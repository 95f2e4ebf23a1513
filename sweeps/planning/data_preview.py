"""Facts about a sweep's data and model before training: what they can show, how long it takes."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sweeps.errors import first_line
from sweeps.messages.formatting import (
    counted,
    format_bytes,
    format_seconds,
    metric_heading,
    shortened,
)
from sweeps.search.plan import Plan
from sweeps.search.stopping import make_stopper
from sweeps.sweep_file.schema import SweepFile
from trainables.contract.metric_names import MetricName
from trainables.plugins.arguments import few

if TYPE_CHECKING:
    from trainables.data.core.base import Dataset

_USUAL_DIFFERENCE = 0.02  # ECE difference of calibration losses in most of the papers' tables
_LARGEST_SHARE = 0.24  # of the samples for training and validation: more would cost accuracy
_COMPARED = ("event_ece", "ece", "adaptive_ece")
_SLOWER_BESIDE = 2.0  # an epoch beside other trials: two CPUs may be two threads of one core
_START_AND_END = 60.0  # seconds: starting Ray, reference models, verdicts, MLflow


def data_facts(plan: Plan, dataset: Dataset) -> dict[str, str]:
    from trainables.metrics import chance_of_detection, detectable_difference
    from trainables.trials.trial import validation_parts

    sweep = plan.sweep
    judging, _ = validation_parts(dataset.validation.labels, dataset, sweep.training.adapt_share)
    count = len(judging)
    optional = {
        "features": dataset.samples.listed(),
        "skipped": "\n".join(map(shortened, dataset.notes)),
        "noticed": "\n".join(dataset.remarks),
    }
    facts = {
        "data": _sizes(dataset),
        "samples": str(dataset.samples),
        "labels" if dataset.task.names else "classes": few(dataset.task.names or dataset.classes),
        "task": str(dataset.task),
        "data kept": _held(dataset),
    }
    facts |= {name: fact for name, fact in optional.items() if fact}
    if sweep.trainable is None:
        facts["model"] = sweep.model.name
    several = (
        dataset.task.decisions * dataset.task.cluster_size > 1 or dataset.test.groups is not None
    )
    if MetricName.parse(sweep.objective).metric not in _COMPARED or several:
        return facts
    smallest = detectable_difference(count)
    summary = (
        f"differences in {metric_heading('ece')} of {smallest:.3f} or more, by {count:,} "
        "validation samples (at an error of 0.1)"
    )
    if smallest > _USUAL_DIFFERENCE:
        summary += f"; calibration losses mostly differ by less than {_USUAL_DIFFERENCE:g}"
        if count < _LARGEST_SHARE * (count + len(dataset.train)):
            summary += ": give dataset.validation more samples"
    chance = chance_of_detection(_USUAL_DIFFERENCE, len(dataset.test))
    support = (
        f"about {chance:.0%} for a difference in {metric_heading('ece')} of {_USUAL_DIFFERENCE:g}, "
        f"by {len(dataset.test):,} test samples (at an error of 0.1)"
    )
    return {**facts, "can detect": summary, "chance of support": support}


def model_facts(sweep: SweepFile, dataset: Dataset) -> dict[str, str]:
    """Tries the export with untrained weights; empty for a custom loop, whose model is unknown."""
    if sweep.trainable is not None:
        return {}
    from trainables.export.calibrated import CalibratedClassifier
    from trainables.export.exported import export_program
    from trainables.models import model_for, without_weights

    name, options = sweep.model.name, sweep.model.options
    model = model_for(dataset, name, without_weights(name, options))
    classifier = CalibratedClassifier(model, dataset.samples, 1.0, dataset.classes, dataset.task)
    try:
        export_program(classifier, dataset.train.rows(slice(2)))
    except ValueError as error:
        return {"export": shortened(f"not possible after training: {first_line(error)}")}
    return {"export": "possible, as a program that needs only PyTorch"}


@dataclass(frozen=True)
class Duration:
    """Seconds of an epoch, measured while no other trial runs, and at most of the whole sweep."""

    epoch: float
    whole: float
    slots: int


def duration_of(plan: Plan, dataset: Dataset) -> Duration | None:
    """Estimated by training the baseline for a second or two; None where that is not possible."""
    sweep = plan.sweep
    if sweep.trainable is not None or sweep.encoder is not None or sweep.scaling.num_workers > 1:
        return None
    import torch

    from trainables.engine.timing import seconds_per_epoch

    seconds = seconds_per_epoch(
        sweep.model.name, sweep.model.options, dataset, sweep.training.config()
    )
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    slots = torch.cuda.device_count() or max(1, cpus // sweep.scaling.cpus_per_worker)
    slots = min(slots, sweep.scaling.max_concurrent or slots)
    crowd = max(1.0, os.getloadavg()[0] / cpus)
    whole = longest_duration(seconds, plan.pilot_epochs, plan.most_epochs, slots, crowd)
    return Duration(seconds, whole, slots)


def duration_facts(plan: Plan, found: Duration | None) -> dict[str, str]:
    """The sweep's duration here, in words."""
    if found is None:
        return {}
    import torch

    where = "GPU" if torch.cuda.is_available() else "CPU core"
    return {
        "time": f"about {format_seconds(found.epoch)} an epoch on a {where} of this machine, "
        f"measured; at most {format_seconds(found.whole)} in total, with "
        f"{counted(found.slots, 'concurrent trial')}"
        + ("; less as poor trials stop" if make_stopper(plan).rungs else "")
    }


def longest_duration(
    seconds: float, alone: int, epochs: int, slots: int, crowd: float = 1.0
) -> float:
    """An upper bound of a sweep's duration, in seconds.

    Args:
        seconds: Of an epoch, measured while no other trial runs.
        alone: Number of epochs, among all, that are trained while no other trial runs.
        epochs: Number of all epochs, at most.
        slots: Number of concurrent trials.
        crowd: How many programs want each CPU. The seconds of an epoch contain that already.
    """
    beside = _SLOWER_BESIDE if slots > 1 else 1.0
    return _START_AND_END * crowd + seconds * (alone + beside * (epochs - alone) / slots)


def sizes_of(dataset: Dataset) -> dict[str, int]:
    """Samples of each split, and the number of classes."""
    return {
        "training": len(dataset.train),
        "validation": len(dataset.validation),
        "test": len(dataset.test),
        "classes": dataset.num_classes,
    }


def _sizes(dataset: Dataset) -> str:
    """The size of each split, and what the labels are."""
    *splits, (_, classes) = sizes_of(dataset).items()
    sizes = ", ".join(f"{count:,} {name}" for name, count in splits)
    kinds = f"{classes} classes"
    if dataset.task.names:
        kinds = f"{len(dataset.task.names)} labels, each there or not"
    summary = f"{sizes} samples of {kinds}"
    if dataset.task.cluster_size > 1:
        summary = (
            f"{sizes} images, each pixel of one of {kinds}; judged by {dataset.task.cluster_size} "
            "pixels of each"
        )
    if dataset.train.soft is not None:
        summary += ", labelled with probabilities; what is measured, is by labels drawn from them"
    if dataset.train.weights is not None:
        summary += "; training samples are weighted"
    return summary


def _held(dataset: Dataset) -> str:
    splits = (dataset.train, dataset.validation, dataset.test)
    decoded = format_bytes(sum(split.inputs.nbytes for split in splits))
    files = sorted({each.inputs.path for each in splits if not isinstance(each.inputs, np.ndarray)})
    if not files:
        return f"in memory, {decoded}"
    encoded = format_bytes(sum(os.path.getsize(file) for file in files))
    return f"streamed from the disk, {encoded} (decoded {decoded}): {', '.join(files)}"
