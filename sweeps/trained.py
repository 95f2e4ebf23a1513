"""The trained classifiers of a sweep."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sweeps.errors import UserError
from sweeps.planning.data import load_data
from sweeps.store.encoders import encoder_setup
from sweeps.store.identity import read_identity

if TYPE_CHECKING:
    from sweeps.search.record import TrialRecord
    from sweeps.store.sweep_store import SweepStore
    from sweeps.sweep_file.schema import SweepFile
    from trainables.calibrated import CalibratedClassifier
    from trainables.data.base import Dataset


def load_same_data(store: SweepStore, sweep: SweepFile) -> Dataset:
    """The data that a sweep was begun with.

    Raises:
        UserError: They are others now; or what the sweep has trained cannot be built from them.
    """
    if sweep.trainable is not None:
        raise UserError(
            f"sweep {sweep.name!r} was trained by a loop of your own, {sweep.trainable.name}, "
            "which alone can build its model; what it has kept lies in "
            f"{store.trials_folder.uri}/NUMBER/checkpoints, and in MLflow"
        )
    dataset = load_data(sweep)
    identity = read_identity(store.folder)
    if identity is not None and identity.digest != dataset.digest():
        raise UserError(
            f"the data are not those that sweep {sweep.name!r} was begun with: what new samples "
            "are normalised by cannot be told; put the data back as they were"
        )
    return dataset


def load_trained(
    store: SweepStore, sweep: SweepFile, dataset: Dataset, record: TrialRecord
) -> CalibratedClassifier:
    """What a trial has trained, with its temperature.

    Args:
        store: Of the sweep.
        sweep: The sweep.
        dataset: Its data.
        record: The trial's.

    Raises:
        UserError: Its checkpoint is gone.
    """
    from trainables.calibrated import load_calibrated

    encoder = encoder_setup(sweep, store, dataset)
    try:
        return load_calibrated(
            dataset,
            (sweep.model.name, sweep.model.options),
            record.config,
            store.trial_folder(record.number),
            record.outcome["temperature"],
            None if encoder is None else encoder.uri,
        )
    except (FileNotFoundError, ValueError) as error:
        raise UserError(f"{record.label}: its weights are gone: {error}") from None
