"""The code of a registered model. MLflow copies this file, so it must not import calsweep."""

from typing import Any

import mlflow
import numpy as np
import torch


class CalibratedModel(mlflow.pyfunc.PythonModel):  # type: ignore[misc]
    """Maps samples to calibrated probabilities."""

    def load_context(self, context: Any) -> None:
        self._classify = torch.export.load(context.artifacts["program"]).module()

    def predict(self, context: Any, model_input: np.ndarray, params: Any = None) -> np.ndarray:
        """Samples (N, ...), of the signature's dtype, to probabilities (N, classes), float32."""
        with torch.no_grad():
            rows = torch.from_numpy(np.array(model_input, order="C"))  # the array may be read-only
            probabilities: np.ndarray = self._classify(rows).numpy()
        return probabilities


mlflow.models.set_model(CalibratedModel())
