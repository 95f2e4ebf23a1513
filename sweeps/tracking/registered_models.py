"""MLflow's registry: the chosen classifier of a dataset under a name and an alias."""

from __future__ import annotations

import re
import tempfile
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sweeps.errors import UserError, first_line
from sweeps.tracking.address import make_client

_CODE = Path(__file__).with_name("served_model.py")


@dataclass(frozen=True)
class ModelToRegister:
    """A classifier for the registry.

    Attributes:
        name: In the registry, before what is not allowed there is replaced.
        alias: ``champion`` or ``challenger``.
        program: See :func:`~trainables.exported.export_program`.
        about: What is known of it: ``dtype``, ``shape``, ``classes``, ``label``, ``temperature``.
        example: Two samples or so, (N, ...), of that dtype.
    """

    name: str
    alias: str
    program: bytes
    about: dict[str, Any]
    example: Any

    @property
    def allowed_name(self) -> str:
        """The name without ``/`` and ``:``, which MLflow refuses."""
        return re.sub(r"[/:]+", "-", self.name)


def register_model(uri: str, run_id: str, model: ModelToRegister) -> str:
    """Log a classifier to a run and register it as a new version, which gets the alias.

    Args:
        uri: MLflow's address.
        run_id: The run that it belongs to.
        model: The classifier.

    Returns:
        Its address, ``models:/calsweep-digits@champion``.

    Raises:
        UserError: MLflow does not take it.
    """
    from mlflow.exceptions import MlflowException

    client = make_client(uri)
    place = f"model-{model.alias}"
    name = model.allowed_name
    try:
        with tempfile.TemporaryDirectory(prefix="calsweep-") as folder:
            saved = Path(folder) / "saved"
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of MLflow's own type hints, on its import
                _save(model, Path(folder) / "model.pt2", saved)
            client.log_artifacts(run_id, str(saved), place)
        try:
            client.create_registered_model(name)
        except MlflowException as error:
            if error.error_code != "RESOURCE_ALREADY_EXISTS":
                raise
        source = f"{client.get_run(run_id).info.artifact_uri}/{place}"
        version = client.create_model_version(
            name, source, run_id, description=f"{model.about['label']}, {model.about['sweep']}"
        )
        client.set_registered_model_alias(name, model.alias, version.version)
    except MlflowException as error:
        raise UserError(f"MLflow does not register {name}: {first_line(error)}") from None
    return f"models:/{name}@{model.alias}"


def _save(model: ModelToRegister, program: Path, saved: Path) -> None:
    import mlflow
    import numpy as np
    import torch
    from mlflow.models import ModelSignature
    from mlflow.types import Schema, TensorSpec

    program.write_bytes(model.program)
    about = model.about
    inputs = TensorSpec(np.dtype(about["dtype"]), (-1, *about["shape"]))
    outputs = TensorSpec(np.dtype("float32"), (-1, len(about["classes"])))
    mlflow.pyfunc.save_model(
        saved,
        python_model=str(_CODE),
        artifacts={"program": str(program)},
        signature=ModelSignature(inputs=Schema([inputs]), outputs=Schema([outputs])),
        input_example=model.example,
        pip_requirements=[
            f"torch=={torch.__version__.partition('+')[0]}",
            f"mlflow=={mlflow.__version__}",
            "numpy",
        ],
        metadata=about,
    )
