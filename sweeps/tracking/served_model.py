"""The code of a registered model. MLflow copies this file, so it must not import calsweep."""

import json
import runpy
from pathlib import Path
from typing import Any

import mlflow
import numpy as np
import pandas as pd
import torch
from mlflow.exceptions import MlflowException
from mlflow.protos.databricks_pb2 import INVALID_PARAMETER_VALUE

_BATCH = 1024


class RefusedSamplesError(MlflowException, ValueError):  # type: ignore[misc]
    """Samples that cannot be encoded; a server answers 400 with the reason."""


class CalibratedModel(mlflow.pyfunc.PythonModel):  # type: ignore[misc]
    """Maps raw samples to calibrated probabilities."""

    def load_context(self, context: Any) -> None:
        files = context.artifacts
        self._classify = torch.export.load(files["program"]).module()
        self._about = json.loads(Path(files["about"]).read_text("utf-8"))
        self._encode = runpy.run_path(files["encode"])["encode"]

    # Without type hints, as MLflow would validate the samples by them and warns about `Any`.
    def predict(self, context, model_input, params=None):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
        """Raw samples to probabilities: a data frame with a column for each class.

        With a class for each pixel, an array (N, classes, height, width).
        """
        about = self._about
        try:
            if about["raw"] == "texts":
                model_input = _texts(model_input, about["text_column"])
            rows = self._encode(about["samples"], model_input)
        except (TypeError, ValueError) as error:
            raise RefusedSamplesError(str(error), INVALID_PARAMETER_VALUE) from error
        with torch.no_grad():
            # Copied, because the array may be read-only.
            pieces = [
                self._classify(torch.from_numpy(np.array(rows[start : start + _BATCH], order="C")))
                for start in range(0, len(rows), _BATCH)
            ]
        probs = torch.cat(pieces).numpy()
        return pd.DataFrame(probs, columns=about["classes"]) if probs.ndim == 2 else probs


def _texts(frame: Any, column: str | None) -> list[str]:
    """The texts of a data frame: in the column of training, else in its only one."""
    if column in frame:
        return list(frame[column])
    if len(frame.columns) > 1:
        raise ValueError(f"no column {column!r}; the columns: {', '.join(map(str, frame.columns))}")
    return list(frame.iloc[:, 0])


mlflow.models.set_model(CalibratedModel())
