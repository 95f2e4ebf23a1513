"""A trained classifier with its preprocessing as one program that needs only PyTorch."""

from __future__ import annotations

import io
import warnings

import numpy as np
import torch
from torch.export import ExportedProgram

from trainables.data.core.types import Inputs
from trainables.export.calibrated import CalibratedClassifier, CalibratedEnsemble


def export_program(classifier: CalibratedClassifier | CalibratedEnsemble, rows: Inputs) -> bytes:
    """The classifier as a file for :func:`torch.export.load`; batches may have any size.

    Args:
        classifier: On the CPU.
        rows: Two rows or more, as its ``forward`` takes them, to trace it with.

    Raises:
        ValueError: The model does something that cannot be traced; says what.
    """
    example = torch.from_numpy(rows[:2].copy())
    with torch.no_grad():
        classifier(example)  # constants of the normalisation are made outside the tracing
        try:
            program = torch.export.export(
                classifier, (example,), dynamic_shapes=({0: torch.export.Dim("batch")},)
            )
        except Exception as error:  # of torch's compiler, of many kinds
            raise ValueError(f"the model cannot be exported: {error}") from error
    buffer = io.BytesIO()
    torch.export.save(program, buffer)
    return buffer.getvalue()


def load_program(data: bytes) -> ExportedProgram:
    """Load a file of :func:`export_program`; its ``module()`` maps rows to probabilities."""
    return torch.export.load(io.BytesIO(data))


def export_onnx(program: ExportedProgram) -> bytes:
    """The program in the Open Neural Network Exchange format: ``samples`` to ``probabilities``.

    Args:
        program: Of :func:`load_program`.

    Raises:
        ModuleNotFoundError: The packages for it are not installed.
        ValueError: The model does something that the format does not have; says what.
    """
    import onnxscript  # noqa: F401  # torch's own message is less clear

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of torch to itself, on how it converts
            converted = torch.onnx.export(
                program,
                input_names=["samples"],
                output_names=["probabilities"],
                verbose=False,
            )
    except Exception as error:  # of the converter, of many kinds
        raise ValueError(f"the model cannot be written as ONNX: {error}") from error
    assert converted is not None
    data: bytes = converted.model_proto.SerializeToString()
    return data


def run_onnx(data: bytes, rows: Inputs) -> Inputs:
    """Probabilities (N, K), float32, of rows by a model of :func:`export_onnx`."""
    import onnxruntime

    (probs,) = onnxruntime.InferenceSession(data).run(["probabilities"], {"samples": rows})
    return np.asarray(probs)
