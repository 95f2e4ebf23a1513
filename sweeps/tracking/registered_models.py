"""MLflow's registry: the recommended classifier of a dataset under a name and an alias."""

from __future__ import annotations

import json
import logging
import re
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from sweeps.errors import UserError, first_line
from sweeps.messages.reporter import logger
from sweeps.tracking.address import make_client
from sweeps.tracking.experiment import NAME_BYTES, within_bytes
from sweeps.tracking.retrying import persistently
from sweeps.tracking.rights import NoRightError, needs_right
from sweeps.tracking.run_files import RunFiles
from trainables.export.description import FILE, Exported
from trainables.files.rows import Rows

_CODE = Path(__file__).with_name("served_model.py")
_ASK = "ask for EDIT on that registered model, or for the right to make it"
_TRIAL = "calsweep.trial"  # the tag of a version with the number of its trial
_TEST_SPLIT = "calsweep.test_split"  # the tag with the digest of its test split
_ON_TEST = "predictions_test.parquet"

Alias = Literal["champion", "challenger"]


@dataclass(frozen=True)
class ModelToRegister:
    """A classifier for the registry.

    Attributes:
        trial: The number of its trial; of several networks all numbers, ``1-4``.
        program: See :func:`~trainables.export.exported.export_program`.
        about: Its description: ``dtype``, ``shape``, ``classes``, ``outputs``, ``label``, ....
        encode: The content of ``encode.py``, which turns raw samples into rows, and `needed` by it.
        example: A few raw samples: columns by name, strings, or an array (N, ...); or None.
        on_test: Its predictions on the test split; None if they cannot be read.
        test_split: Digest of the test split.
    """

    trial: str
    program: bytes
    about: Exported
    encode: bytes
    needed: tuple[str, ...]
    columns: tuple[str, ...]
    example: Any
    on_test: Rows | None
    test_split: str


@dataclass(frozen=True)
class Version:
    """A registered version: its number, run and trial, and the digest of its test split."""

    number: str
    run_id: str
    trial: str | None
    test_split: str | None


class Registry:
    """The classifiers of one dataset in MLflow's registry, and a run that adds versions.

    In the name, ``/`` and ``:``, which MLflow refuses, are replaced; it may be shortened.
    """

    def __init__(self, uri: str, run_id: str, name: str) -> None:
        self._client = make_client(uri)
        self._run_id = run_id
        self._name = within_bytes(re.sub(r"[/:]+", "-", name), NAME_BYTES)

    def address(self, alias: Alias) -> str:
        """``models:/calsweep-digits@champion``."""
        return f"models:/{self._name}@{alias}"

    def at(self, alias: Alias) -> Version | None:
        """The version that has this alias, if there is one."""
        from mlflow.exceptions import MlflowException

        try:
            found = self._client.get_model_version_by_alias(self._name, alias)
        except MlflowException:  # there is none, or the error will recur below
            return None
        return _version(found)

    def version_of(self, trial: str) -> Version | None:
        """The version of this trial that the run has added, if there is one."""
        found = self._client.search_model_versions(f"run_id = '{self._run_id}'")
        own = (each for each in found if each.name == self._name)
        return next((each for each in map(_version, own) if each.trial == trial), None)

    def on_test(self, version: Version) -> Rows | None:
        """A version's predictions on the test split; None if there are none, or no right."""
        place = f"{_place(version.trial)}/{_ON_TEST}"
        try:
            return Rows.decode(self._files(version.run_id).read(place))
        except Exception as error:  # each kind of artifact storage raises others
            logger.warning("no predictions of version %s: %s", version.number, error)
            return None

    def _files(self, run_id: str) -> RunFiles:
        return RunFiles.of(self._client.get_run(run_id), self._client.tracking_uri)

    def tag_run(self, tags: Mapping[str, str]) -> None:
        """Set tags of the sweep's own run."""
        with self._refusals():
            for name, value in tags.items():
                self._client.set_tag(self._run_id, name, value)

    def add(self, model: ModelToRegister) -> Version:
        """Log a classifier to the run and register it as a new version.

        Raises:
            UserError: MLflow refuses.
        """
        with self._refusals(), tempfile.TemporaryDirectory(prefix="calsweep-") as folder:
            saved = Path(folder) / "saved"
            with _silenced():
                _save(model, Path(folder), saved)
            if model.on_test is not None:
                (saved / _ON_TEST).write_bytes(model.on_test.encode())
            # A folder of its own, so that an earlier version of another trial keeps its files.
            place = _place(model.trial)
            self._files(self._run_id).add(saved, place)
            return self._add_version(model, place)

    def move(self, alias: Alias, version: Version) -> None:
        """Let an alias point to a version, which loses the others of calsweep.

        Raises:
            UserError: MLflow refuses.
        """
        with self._refusals():
            self._client.set_registered_model_alias(self._name, alias, version.number)
            for other in get_args(Alias):
                if other != alias and self.at(other) == version:
                    persistently(self._client.delete_registered_model_alias, self._name, other)

    @contextmanager
    def _refusals(self) -> Iterator[None]:
        """Context: MLflow's errors are the user's, in one line."""
        from mlflow.exceptions import MlflowException

        try:
            with needs_right(f"register a model as {self._name}", _ASK):
                yield
        except (MlflowException, NoRightError) as error:
            raise UserError(f"MLflow does not register {self._name}: {first_line(error)}") from None

    def _add_version(self, model: ModelToRegister, place: str) -> Version:
        from mlflow.exceptions import MlflowException

        try:
            persistently(self._client.create_registered_model, self._name)
        except MlflowException as error:
            if error.error_code != "RESOURCE_ALREADY_EXISTS":
                raise
        own = {_TRIAL: model.trial, _TEST_SPLIT: model.test_split}
        return _version(
            persistently(
                self._client.create_model_version,
                self._name,
                # MLflow decodes percent signs in a path twice, and a storage may be moved.
                f"runs:/{self._run_id}/{place}",
                self._run_id,
                tags={**own, **_metrics(model.about)},
                description=f"{model.about.label}, {model.about.sweep}",
            )
        )


def _version(found: Any) -> Version:
    """Of MLflow's ``ModelVersion``."""
    tags: dict[str, str] = found.tags
    return Version(str(found.version), found.run_id, tags.get(_TRIAL), tags.get(_TEST_SPLIT))


def _place(trial: str | None) -> str:
    """The folder of a version among the artifacts of its run."""
    return f"model-of-trial-{trial}"


@contextmanager
def _silenced() -> Iterator[None]:
    """Context: no messages of MLflow about type hints and pip's version."""
    log = logging.getLogger("mlflow")
    before = log.level
    log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(record=True):  # MLflow overrides filters that ignore
            warnings.simplefilter("ignore")
            yield
    finally:
        log.setLevel(before)


def _metrics(about: Exported) -> dict[str, str]:
    """Tags with the metrics of this very model, with its scaling, on the test split."""
    return {
        f"test_{name}": f"{about.test[f'{name}_handed_out']:.6g}"
        for name in ("ece", "nll", "error")
        if f"{name}_handed_out" in about.test
    }


def _signature(model: ModelToRegister) -> Any:
    import numpy as np
    from mlflow.models import ModelSignature
    from mlflow.types import ColSpec, Schema, TensorSpec
    from mlflow.types.schema import AnyType

    about = model.about
    inputs: list[Any] = [TensorSpec(np.dtype(about.dtype), (-1, *about.shape))]
    if about.raw == "table":
        # For "double", MLflow refuses columns of integers, as any CSV file has.
        inputs = [ColSpec(AnyType(), name) for name in model.columns]
    elif about.raw == "texts":
        inputs = [ColSpec("string")]  # without a name, so that lists of strings are allowed too
    outputs: list[Any] = [ColSpec("float", name) for name in about.classes]
    if about.each_pixel:
        outputs = [TensorSpec(np.dtype("float32"), (-1, *about.outputs))]
    return ModelSignature(inputs=Schema(inputs), outputs=Schema(outputs))


def _save(model: ModelToRegister, folder: Path, saved: Path) -> None:
    import mlflow
    import pandas as pd
    import torch

    about, example = model.about, model.example
    files = {
        "program": ("model.pt2", model.program),
        "about": (FILE, about.write()),
        "encode": ("encode.py", model.encode),
    }
    for name, data in files.values():
        (folder / name).write_bytes(data)
    mlflow.pyfunc.save_model(
        saved,
        python_model=str(_CODE),
        artifacts={key: str(folder / name) for key, (name, _) in files.items()},
        signature=_signature(model),
        input_example=pd.DataFrame(example) if about.raw == "table" and example else example,
        pip_requirements=[
            f"torch=={torch.__version__.partition('+')[0]}",
            f"mlflow=={mlflow.__version__}",
            *model.needed,
        ],
        # The vocabulary and the levels are in model.json.
        metadata={
            key: value for key, value in json.loads(about.write()).items() if key != "samples"
        },
    )
