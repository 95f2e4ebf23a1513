"""Facts about a sweep's model before training: whether it can be exported afterwards."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sweeps.errors import first_line
from sweeps.messages.formatting import shortened
from sweeps.sweep_file.schema import SweepFile

if TYPE_CHECKING:
    from trainables.data.core.base import Dataset


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
