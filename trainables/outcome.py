"""What a trial came to: all metrics on validation and test, raw and after temperature scaling."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.parquet as pq
import torch
from torch import Tensor

from trainables import metrics as M
from trainables.posthoc import TemperatureScaling, cross_fitted
from trainables.storage import Folder

Predictions = tuple[Tensor, Tensor]


def summarise(
    validation: Predictions,
    test: Predictions,
    adapting: Predictions | None = None,
    names: Sequence[str] | None = None,
    intervals: Sequence[str] = (),
) -> dict[str, float]:
    """The metrics of one trained classifier.

    The temperature is fitted by NLL on the validation split, or on the part of it that is kept for
    that; the test split chooses nothing. What it does to the validation split itself is judged by
    cross-fitting: each half with a temperature of the other.

    Args:
        validation: Logits (N, K) and labels (N,) of the validation split.
        test: The same of the test split.
        adapting: The same of what the temperature is fitted on, if that is apart.
        names: Which metrics; None for all of them.
        intervals: Which of them get an interval.

    Returns:
        ``val_<metric>`` and ``test_<metric>`` for all names of :func:`trainables.metrics.evaluate`,
        ``..._scaled`` for those after temperature scaling, ``temperature``,
        ``temperature_at_bound`` (1.0 where the fit ran into a bound), and the ends of 95% intervals
        (:func:`trainables.metrics.interval`) as ``val_ece_low``, ``val_ece_scaled_high`` and so
        on. What is undefined is left out.
    """
    scaler = TemperatureScaling(criterion="nll").fit(*(adapting or validation))
    values = {
        "temperature": float(scaler.temperature),
        "temperature_at_bound": float(scaler.at_bound),
    }
    for split, (logits, labels) in {"val": validation, "test": test}.items():
        calibrated = scaler(logits)
        if split == "val" and adapting is None:  # no sample is judged by what it was fitted on
            calibrated = cross_fitted(logits, labels)
        raw, scaled = (M.evaluate(each, labels, names) for each in (logits, calibrated))
        values |= {f"{split}_{name}": value for name, value in raw.items()}
        values |= {f"{split}_{name}_scaled": value for name, value in scaled.items()}
        for ending, each in (("", logits), ("_scaled", calibrated)):
            probs = torch.softmax(each.double(), dim=1)
            for name in intervals:
                _, low, high = M.interval(name, probs, labels)
                values[f"{split}_{name}{ending}_low"] = low
                values[f"{split}_{name}{ending}_high"] = high
    return {name: value for name, value in values.items() if math.isfinite(value)}


def write_predictions(folder: Folder, split: str, predictions: Predictions) -> None:
    """Write ``predictions_<split>.parquet``: columns ``label`` int64, ``logits`` list<float>[K]."""
    logits, labels = predictions
    table = pa.table(
        {
            "label": labels.numpy(),
            "logits": pa.FixedSizeListArray.from_arrays(
                logits.float().reshape(-1).numpy(), logits.shape[1]
            ),
        }
    )
    buffer = io.BytesIO()
    pq.write_table(table, buffer)
    folder.write(f"predictions_{split}.parquet", buffer.getvalue())


def read_predictions(data: bytes) -> Predictions:
    """Logits (N, K) float32 and labels (N,) int64 from such a file's content."""
    table = pq.read_table(io.BytesIO(data))
    labels = torch.from_numpy(table["label"].to_numpy().copy())
    flat = table["logits"].combine_chunks().flatten().to_numpy(zero_copy_only=False)
    return torch.from_numpy(flat.copy()).reshape(len(labels), -1), labels
