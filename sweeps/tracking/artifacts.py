"""The files of a trial that are uploaded to MLflow at its end."""

from __future__ import annotations

import shutil
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import Final

from sweeps.errors import first_line
from sweeps.messages.formatting import format_temperature
from sweeps.search.record import TrialRecord
from sweeps.store.identity import read_identity
from sweeps.store.sweep_store import SweepStore
from sweeps.tracking.refusals import NotTakenError
from sweeps.tracking.run import METRICS, metrics_file
from trainables.contract.config import ARCHIVE, USUAL_SCALING, ScalingWay, is_own_folder
from trainables.files.storage import Folder

_PREDICTIONS: Final = "predictions_"


def gather_artifacts(
    store: SweepStore,
    record: TrialRecord,
    shared: dict[str, str],
    folder: Path,
    way: ScalingWay = USUAL_SCALING,
) -> None:
    """:func:`collect_artifacts`; raises NotTakenError, which names the trial."""
    try:
        collect_artifacts(store, record, shared, folder, way)
    except Exception as error:
        away = isinstance(error, OSError) and not isinstance(error, FileNotFoundError)
        files = store.trial_folder(record.number).uri
        raise NotTakenError(
            "later" if away else "damaged",
            f"trial {record.number}: its files in {files}: {first_line(error)}",
        ) from error


def collect_artifacts(
    store: SweepStore,
    record: TrialRecord,
    shared: dict[str, str],
    folder: Path,
    way: ScalingWay = USUAL_SCALING,
) -> None:
    """Gather a trial's artifacts in an empty local folder.

    These are its last undamaged checkpoint (or the files of a custom training loop), its
    predictions on the validation and test split, a reliability diagram of the test split before and
    after scaling (of two classes also one of the event), all metrics of its last epoch, and the
    `shared` files of all trials. Finalists are scaled in the given way, others with their
    temperature, because a choice takes a second.
    """
    # Imported here, because torch takes seconds and Ray should start first.
    from sweeps.evidence.scaling import AS_TRAINED, reliability_views
    from sweeps.pages.event_diagram import event_of_rows
    from sweeps.pages.reliability import reliability_svg
    from trainables.files.checkpoints import read_checkpoint

    source = store.trial_folder(record.number)
    for name, text in shared.items():
        (folder / name).write_bytes(text.encode())  # whatever the locale
    if record.history:
        (folder / METRICS).write_bytes(metrics_file(record).encode())
    names = source.names()
    for name in names:
        if name.startswith(_PREDICTIONS):
            (folder / name).write_bytes(source.read(name))
    checkpoint = read_checkpoint(source / "checkpoints")
    if checkpoint is not None and not _collect_own(source / "checkpoints", folder):
        (folder / "checkpoint.pt").write_bytes(checkpoint)
    if "predictions_test.parquet" in names and "temperature" in record.outcome:
        data = (folder / "predictions_test.parquet").read_bytes()
        rows = store.find_rows("test", record.number, data)
        assert rows is not None  # the file was there
        temperature = record.outcome["temperature"]
        views = {
            AS_TRAINED: rows,
            f"T = {format_temperature(temperature)}": rows.scaled(temperature),
        }
        if record.role == "finalist":
            with suppress(ValueError):  # its predictions can have no other scaling
                views = reliability_views(store.rows, record, way)
        drawing = reliability_svg(views, record.label)
        (folder / "reliability.svg").write_bytes(drawing.encode())
        identity = read_identity(store.folder)
        classes = () if identity is None else identity.classes
        if of_event := event_of_rows(list(views.values())[-1], classes):
            (folder / "event.svg").write_bytes(of_event.encode())


def artifact_names(
    store: SweepStore, record: TrialRecord, shared: Collection[str]
) -> frozenset[str]:
    """Names of artifacts that a trial certainly has; a checkpoint may be damaged."""
    found = store.trial_folder(record.number).names()
    predictions = (name for name in found if name.startswith(_PREDICTIONS))
    return frozenset((*shared, *predictions, *([METRICS] if record.history else [])))


def _collect_own(checkpoints: Folder, folder: Path) -> bool:
    found = False
    for name in checkpoints.names():
        own = checkpoints / name
        if not is_own_folder(name) or not own.names():
            continue
        if own.is_local:
            shutil.copytree(own.path, folder / "checkpoint", dirs_exist_ok=True)
        else:
            (folder / ARCHIVE).write_bytes(own.read(ARCHIVE))
        found = True
    return found
