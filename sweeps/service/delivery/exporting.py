"""Exports a trained classifier to a folder."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Final, ParamSpec, TypeVar

from sweeps.errors import SweepFailedError, UserError
from sweeps.evidence.prediction_sets import sets_of_trial
from sweeps.evidence.scaling import scaled_rows
from sweeps.messages.formatting import scaling_words
from sweeps.planning.checks import use_working_folder
from sweeps.search.record import TrialRecord
from sweeps.service.delivery.delivered import RECOMMENDED, Delivered, Wanted, deliver, read_on_test
from sweeps.service.delivery.loading import load_ensemble, load_same_data, load_trained, own_scaling
from sweeps.service.reading.stored import StoredSweep
from sweeps.tracking.registered_models import ModelToRegister
from trainables.export.description import FILE, Exported
from trainables.plugins.extras import require_extra

if TYPE_CHECKING:
    from torch import Tensor
    from torch.export import ExportedProgram

    from sweeps.evidence.ensemble import Selected
    from trainables.contract.config import ScalingWay
    from trainables.data.core.base import Dataset
    from trainables.export.calibrated import CalibratedClassifier, CalibratedEnsemble
    from trainables.files.rows import ReadRows

P = ParamSpec("P")
T = TypeVar("T")

PROGRAM: Final = "model.pt2"
_TOLERANCE: Final = 1e-3  # tolerance of a probability, because other machines round differently
_CHECKED: Final = 256  # test samples


@dataclass(frozen=True)
class Built:
    """An exported classifier: its files by name, and their description ``model.json``."""

    files: dict[str, bytes]
    about: Exported


def export_model(
    name: str,
    storage: str,
    output: str | None = None,
    *,
    onnx: bool = False,
    wanted: Wanted = RECOMMENDED,
) -> tuple[str, str]:
    """Write a trained classifier of a sweep, by default the recommended one, to a new folder.

    ``model.pt2`` maps samples to calibrated probabilities and needs only PyTorch. The folder, by
    default ``<name>-model``, also contains the weights, a description ``model.json``, requirements,
    a page on its use, and if asked for ``model.onnx``. Returns the folder, and a description.

    Raises:
        UserError: There is no such sweep or setting, or the folder already exists.
        SweepFailedError: The exported classifier does not reproduce the trial's predictions.
    """
    folder = Path(output or f"{name}-model").absolute()
    if os.path.lexists(folder):
        raise UserError("already exists; name another folder, or delete it", "output", folder)
    if onnx:
        _check_onnx_is_there()
    sweep = StoredSweep.read(name, storage)
    use_working_folder()
    delivered = deliver(sweep, wanted)
    built = Builder(sweep, load_same_data(sweep), onnx).build(delivered)
    try:
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".calsweep-") as temporary:
            made = Path(temporary) / "made"
            made.mkdir()
            for file, data in built.files.items():
                (made / file).write_bytes(data)
            made.replace(folder)
    except OSError as error:
        raise UserError(f"cannot be written: {error.strerror}", "output", folder) from None
    return str(folder), _in_words(built.about, finished=sweep.has_ended)


def _in_words(about: Exported, *, finished: bool) -> str:
    """What was exported, in a line."""
    found = f"{about.label}, {scaling_words(about.scaling)}"
    found += ", recommended" if about.recommended else ", not recommended"
    return found if finished else f"{found}; the sweep is not finished, and may recommend another"


def reads_files(folder: str) -> bool:
    """Whether `calsweep predict` can use the folder that :func:`export_model` wrote."""
    return not Exported.read((Path(folder) / FILE).read_bytes()).each_pixel


@dataclass(frozen=True)
class Builder:
    """Builds the classifiers of a sweep, for a folder or for MLflow; if asked for, with `onnx`."""

    sweep: StoredSweep
    dataset: Dataset
    onnx: bool = False

    @property
    def _checked(self) -> int:
        """Number of test samples that check an export; fewer if a sample has many outputs."""
        most = max(2, _CHECKED // self.dataset.task.cluster_size)
        return min(most, len(self.dataset.test))

    @property
    def _needed(self) -> list[str]:
        from trainables.export.raw_samples import needed_packages

        return needed_packages(self.dataset.samples)

    def to_register(self, delivered: Delivered) -> ModelToRegister:
        from trainables.data.kinds.table import TableRows
        from trainables.export.raw_samples import columns_of, encode_code, raw_example

        built, samples = self.build(delivered), self.dataset.samples
        return ModelToRegister(
            delivered.number,
            built.files[PROGRAM],
            built.about,
            encode_code(),
            tuple(self._needed),
            tuple(columns_of(samples)) if isinstance(samples, TableRows) else (),
            raw_example(samples, self.dataset.test.rows(slice(2))),
            read_on_test(self.sweep, delivered),
            self.dataset.test_digest(),
        )

    def build(self, delivered: Delivered) -> Built:
        networks, describe = delivered.networks, self._described(delivered)
        if isinstance(networks, TrialRecord):
            return self._build_one(networks, describe)
        return self._build_ensemble(networks, describe)

    def _build_one(self, record: TrialRecord, describe: partial[Exported]) -> Built:
        from trainables.export.prediction_sets import COVERAGES

        read, way = self.sweep.store.rows, self.sweep.plan.rule.scaling
        scaling = own_scaling(self.sweep, record)
        classifier = load_trained(self.sweep, self.dataset, record, scaling)
        on_test = _if_readable(read, "test", record.number)
        expected = None if on_test is None else scaling(on_test.tensors()[0])
        names = ("ece", "ece_scaled", "error", "nll", "nll_scaled")
        sets = _if_readable(sets_of_trial, record, read, COVERAGES, way)
        about = describe(
            label=record.label,
            loss=record.loss,
            hyperparameters=record.hyperparameters,
            seed=record.seed,
            temperature=record.outcome["temperature"],
            scaling=scaling.to_json(),
            test={key: record.outcome[f"test_{key}"] for key in names}
            | (_if_readable(_as_handed_out, read, record, way) or {}),
            prediction_sets=sets or {},
            verdict=None if record.number < 0 else self.sweep.store.verdict,
        )
        return self._build(about, classifier, classifier.network.state_dict(), expected)

    def _build_ensemble(self, selected: Selected, describe: partial[Exported]) -> Built:
        from trainables.export.prediction_sets import COVERAGES

        ensemble = load_ensemble(self.sweep, self.dataset, selected)
        on_test = _if_readable(lambda: selected.on_test)
        about = describe(
            label=selected.label,
            loss="ensemble",
            members=tuple(trial.number for trial in selected.trials),
            networks=selected.networks,
            hyperparameters={},
            temperature=selected.temperature,
            scaling=selected.ensemble.scaling.to_json(),
            prediction_sets={} if on_test is None else selected.sets(COVERAGES),
            verdict=None,
        )
        expected = None if on_test is None else on_test.logits
        return self._build(about, ensemble, ensemble.state_dict(), expected)

    def _build(
        self,
        about: Exported,
        classifier: CalibratedClassifier | CalibratedEnsemble,
        state: Mapping[str, object],
        expected: Tensor | None,
    ) -> Built:
        """The exported files; checks the program against the trials' stored test logits."""
        import torch

        from trainables.export.exported import export_program, load_program
        from trainables.export.raw_samples import ENCODE_FILE, encode_code

        try:
            data = export_program(classifier, self.dataset.test.rows(slice(2)))
        except ValueError as error:
            raise UserError(f"{about.label}: {error}") from None
        program = load_program(data)
        if expected is not None:
            self._check(program, about.label, expected)
        files = {
            PROGRAM: data,
            "weights.pt": _bytes_of(state),
            FILE: about.write(),
            "requirements.txt": "\n".join(
                [f"torch=={torch.__version__.partition('+')[0]}", *self._needed, ""]
            ).encode(),
            "README.md": _page(about, self._needed).encode(),
        }
        if about.raw != "rows":
            files[ENCODE_FILE] = encode_code()
        if self.onnx:
            files["model.onnx"] = self._as_onnx(classifier, program)
        return Built(files, about)

    def _as_onnx(
        self, classifier: CalibratedClassifier | CalibratedEnsemble, program: ExportedProgram
    ) -> bytes:
        """The classifier as ONNX, checked against its program on the first test samples."""
        import torch

        from trainables.export.exported import export_onnx, run_onnx

        rows = self.dataset.test.rows(slice(self._checked))
        try:
            data = export_onnx(classifier, rows)
        except ValueError as error:
            raise UserError(str(error), "onnx") from None
        with torch.no_grad():
            expected = program.module()(torch.from_numpy(rows))
        _compare("model.onnx", torch.from_numpy(run_onnx(data, rows)), expected)
        return data

    def _check(self, program: ExportedProgram, label: str, logits: Tensor) -> None:
        import torch

        from trainables.data.core.tasks import at_places

        task, test = self.dataset.task, self.dataset.test
        count = self._checked
        with torch.no_grad():
            found = program.module()(torch.from_numpy(test.rows(slice(count))))
        if (places := task.drawn(test.labels[:count])) is not None:
            found = at_places(found, torch.from_numpy(places))
        decided = logits[: count * task.decisions * task.cluster_size]
        expected = task.as_outputs(torch.softmax(decided, dim=1))
        _compare(f"{label}: the exported classifier", found, expected)

    def _described(self, delivered: Delivered) -> partial[Exported]:
        """What is known before the networks are loaded."""
        from trainables.export.raw_samples import describe_samples, raw_form

        sweep, dataset = self.sweep.plan.sweep, self.dataset
        return partial(
            Exported,
            recommended=delivered.recommended,
            why=delivered.why,
            sweep=sweep.name,
            dataset=sweep.dataset.label,
            digest=dataset.digest(),
            text_column=sweep.dataset.options.get("text") or sweep.dataset.options.get("embedding"),
            model=sweep.model_label,
            classes=tuple(dataset.task.names or dataset.classes),
            frequencies=tuple(_frequencies(dataset)),
            several=bool(dataset.task.names),
            outputs=(
                len(dataset.task.names or dataset.classes),
                *(dataset.input_shape[1:] if dataset.samples.each_pixel else ()),
            ),
            dtype=str(dataset.test.inputs.dtype),
            shape=tuple(dataset.test.inputs.shape[1:]),
            samples=describe_samples(dataset.samples),
            raw=raw_form(dataset.samples),
            calsweep=version("calsweep"),
        )


def _frequencies(dataset: Dataset) -> list[float]:
    """Of the classes in the validation split, which scaling is fitted on; empty for other tasks."""
    from trainables.data.core.tasks import OneClass

    if not isinstance(dataset.task, OneClass):
        return []
    labels = dataset.validation.labels
    return [float((labels == index).mean()) for index in range(len(dataset.classes))]


def _as_handed_out(read: ReadRows, record: TrialRecord, way: ScalingWay) -> dict[str, float]:
    """Metrics on the test split after the network's scaling; the temperature alone is `scaled`."""
    from trainables.trials.outcome import evaluate

    rows = scaled_rows(read, record, way)
    found = evaluate(*rows.tensors(), ("ece", "nll", "error"), rows.decisions)
    return {f"{name}_handed_out": value for name, value in found.items()}


def _if_readable(get: Callable[P, T], *arguments: P.args, **options: P.kwargs) -> T | None:
    """The result of a function that reads predictions; None if they are damaged or gone."""
    try:
        return get(*arguments, **options)
    except (OSError, ValueError):
        return None


def _compare(who: str, found: Tensor, expected: Tensor) -> None:
    furthest = float((found - expected).abs().max())
    if not furthest <= _TOLERANCE:
        raise SweepFailedError(
            f"{who} differs from what the trial predicted, by up to {furthest:.3g}"
        )


def _check_onnx_is_there() -> None:
    try:
        require_extra("onnx", "onnx", "onnx", "onnxscript", "onnxruntime")
    except ValueError as error:
        raise UserError(str(error)) from None


_PAGE: Final = """\
# {label} on {dataset}

A classifier that `calsweep` trained, with calibrated probabilities ({scaling_in_words}).
{recommended_in_words} {why}

`{program}` contains preprocessing, weights and scaling, and needs only PyTorch:

```python
import torch

classify = torch.export.load("{program}").module()
probabilities = classify(samples)  # {dtype}, ({axes}) -> float32, ({outputs})
```

For a GPU, move the program first, because `.to("cuda")` leaves the module's constants on the CPU:

```python
from torch.export.passes import move_to_device_pass

classify = move_to_device_pass(torch.export.load("{program}"), "cuda").module()
```

`model.json` contains the names of the classes (or of several labels, each with its own
probability), the data, the metrics, and the thresholds of the prediction sets. `weights.pt`
contains the weights alone. With calsweep installed, `calsweep predict FOLDER FILE` classifies
files, unless each pixel has a class.
"""


def _page(about: Exported, needed: list[str]) -> str:
    axes, outputs = (", ".join(map(str, ("N", *each))) for each in (about.shape, about.outputs))
    recommended = "It is what the sweep recommends." if about.recommended else "Not recommended."
    words = {
        "scaling_in_words": scaling_words(about.scaling),
        "program": PROGRAM,
        "axes": axes,
        "outputs": outputs,
    }
    page = _PAGE.format(**{**vars(about), **words, "recommended_in_words": recommended})
    if (kind := about.samples["kind"]) == "Arrays":
        return page  # their rows are the raw samples
    if about.raw not in _RAW:
        return page + _ROWS_PAGE.format(kind)
    return page + _RAW_PAGE.format(raw=_RAW[about.raw], needed=" and ".join(needed))


_RAW: Final = {
    "table": "a data frame (pandas, polars or Arrow) with the columns of the data",
    "texts": "a list of strings",
    "images": "uint8 from 0 to 255, (N, height, width), also with channels; not scaled to 0..1",
}
_ROWS_PAGE: Final = """
`samples` are encoded rows: samples of the kind {} are encoded by the code of their data alone.
"""
_RAW_PAGE: Final = """
`encode.py` turns raw samples into `samples`, as in training. It needs {needed}, not calsweep:

```python
import json
from encode import encode

about = json.load(open("model.json", encoding="utf-8"))
samples = torch.from_numpy(encode(about["samples"], raw))  # raw: {raw}
```
"""


def _bytes_of(state: Mapping[str, object]) -> bytes:
    import io

    import torch

    buffer = io.BytesIO()
    torch.save(state, buffer)
    return buffer.getvalue()
