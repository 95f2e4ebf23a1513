"""Exports a trained classifier with its preprocessing as a program that needs only PyTorch."""

import io
import warnings

import numpy as np
import torch
from torch.export import ExportedProgram

from trainables.data.core.types import Inputs
from trainables.export.calibrated import CalibratedClassifier, CalibratedEnsemble

_SHAPES = ({0: torch.export.Dim("batch")},)


def export_program(classifier: CalibratedClassifier | CalibratedEnsemble, rows: Inputs) -> bytes:
    """The classifier as a file for :func:`torch.export.load`, for batches of any size.

    It is on the CPU, and traced with the first two ``rows``. Raises ``ValueError`` if an operation
    cannot be traced.
    """
    example = torch.from_numpy(rows[:2].copy())
    with torch.no_grad():
        classifier(example)  # creates the constants of the normalisation before tracing
        try:
            program = _traced(classifier, example)
        except Exception as error:  # torch's compiler raises many types
            raise ValueError(f"the model cannot be exported: {error}") from error
    buffer = io.BytesIO()
    torch.export.save(program, buffer)
    return buffer.getvalue()


def _traced(
    classifier: CalibratedClassifier | CalibratedEnsemble, example: torch.Tensor
) -> ExportedProgram:
    def traced(*, strict: bool) -> ExportedProgram:
        return torch.export.export(classifier, (example,), dynamic_shapes=_SHAPES, strict=strict)

    try:
        return traced(strict=False)
    except Exception as error:
        try:  # code such as len(x) needs the compiler, which supports less otherwise
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # it warns of our cached constants
                return traced(strict=True)
        except Exception:
            raise error from None


def load_program(data: bytes) -> ExportedProgram:
    """Load a file of :func:`export_program`; its ``module()`` maps rows to probabilities."""
    return torch.export.load(io.BytesIO(data))


def export_onnx(classifier: CalibratedClassifier | CalibratedEnsemble, rows: Inputs) -> bytes:
    """The classifier as ONNX, with input ``samples`` and output ``probabilities``.

    It is traced anew, because a model may have a formula for ONNX. Raises ``ModuleNotFoundError``
    without the packages, ``ValueError`` for an unsupported operation.
    """
    import onnxscript  # noqa: F401  # torch's own message is less clear

    example = torch.from_numpy(rows[:2].copy())
    try:
        with torch.no_grad(), warnings.catch_warnings():
            classifier(example)  # creates the constants of the normalisation before tracing
            warnings.simplefilter("ignore")  # internal warnings of torch about the conversion
            converted = torch.onnx.export(
                classifier,
                (example,),
                dynamic_shapes=_SHAPES,
                input_names=["samples"],
                output_names=["probabilities"],
                verbose=False,
            )
    except Exception as error:  # the converter raises many types
        raise ValueError(f"the model cannot be written as ONNX: {error}") from error
    assert converted is not None
    data: bytes = converted.model_proto.SerializeToString()
    return data


def run_onnx(data: bytes, rows: Inputs) -> Inputs:
    """Probabilities (N, K), float32, of rows, from a model of :func:`export_onnx`."""
    import onnxruntime

    (probs,) = onnxruntime.InferenceSession(data).run(["probabilities"], {"samples": rows})
    return np.asarray(probs)
