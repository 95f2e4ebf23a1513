"""The trained classifiers of a sweep."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sweeps.errors import UserError, first_line
from sweeps.evidence.scaling import scaled_network
from sweeps.planning.checks import use_working_folder
from sweeps.planning.data import load_data
from sweeps.store.encoders import encoder_setup
from sweeps.store.identity import read_identity

if TYPE_CHECKING:
    from sweeps.evidence.ensemble import Selected
    from sweeps.search.record import TrialRecord
    from sweeps.service.stored import StoredSweep
    from sweeps.sweep_file.sections.training import TrainableSection
    from trainables.data.core.base import Dataset
    from trainables.export.calibrated import CalibratedClassifier, CalibratedEnsemble
    from trainables.files.storage import Folder
    from trainables.posthoc.scaling import Scaling

MODEL: Final = "model.pt"
"""The file of a reference model in its folder."""


def load_same_data(sweep: StoredSweep) -> Dataset:
    """The data that a sweep was started with.

    Raises:
        UserError: The data have changed, or the sweep's classifiers cannot be built from them.
    """
    plan, store = sweep.plan, sweep.store
    if plan.sweep.trainable is not None and plan.sweep.trainable.load is None:
        raise UserError(
            f"sweep {plan.name!r} was trained by a loop of your own, {plan.sweep.trainable.name}, "
            "which alone can build its model: name a function that loads it as trainable.load; "
            f"what it has kept lies in {store.trials_folder.uri}/NUMBER/checkpoints, and in MLflow"
        )
    dataset = load_data(plan.sweep)
    identity = read_identity(store.folder)
    if identity is not None and identity.digest != dataset.digest():
        raise UserError(
            f"the data are not those that sweep {plan.name!r} was started with: what new samples "
            "are normalised by is unknown; put the data back as they were"
        )
    return dataset


def load_ensemble(sweep: StoredSweep, dataset: Dataset, selected: Selected) -> CalibratedEnsemble:
    """The ensemble selected from a sweep's trained classifiers; UserError without checkpoints."""
    from trainables.export.calibrated import CalibratedEnsemble
    from trainables.posthoc.scaling import Scaling

    members = [
        load_trained(sweep, dataset, trial, Scaling("temperature", temperature))
        for trial, temperature in zip(selected.trials, selected.ensemble.temperatures, strict=True)
    ]
    return CalibratedEnsemble(members, selected.ensemble.scaling)


def select_ensemble(sweep: StoredSweep, offered: str | None = None) -> Selected:
    """The ensemble that a sweep offers; UserError if there is none or files are damaged.

    If the best networks of all settings are not shown to beat equally many seeds of cross-entropy,
    these seeds are offered. `offered` says which, by default the stored evidence.
    """
    from sweeps.evidence.ensemble import select, select_seeds

    name = sweep.plan.name
    if offered is None:
        offered = ((sweep.store.load_answer() or {}).get("ensemble") or {}).get("offered")
    find = select_seeds if offered == "seeds" else select
    try:
        selected = find(sweep.ranking, sweep.store.rows)
    except (OSError, ValueError) as error:
        raise UserError(
            f"sweep {name!r}: predictions of its trials cannot be read: {first_line(error)}"
        ) from None
    if selected is None or selected.networks < 2:
        why = (
            "fewer than three finished trials pass the guard, or samples have several decisions"
            if selected is None
            else f"the best is one network, trial {selected.trials[0].number}; export that"
        )
        raise UserError(f"sweep {name!r} has no ensemble: {why}")
    return selected


def load_trained(
    sweep: StoredSweep, dataset: Dataset, record: TrialRecord, scaling: Scaling | None = None
) -> CalibratedClassifier:
    """A trial's classifier with its own scaling, or another one.

    UserError if its checkpoint or its predictions are gone.
    """
    plan, folder = sweep.plan, sweep.store.trial_folder(record.number)
    scaling = scaling or own_scaling(sweep, record)
    if record.number < 0:
        return _load_reference(folder, dataset, record, scaling)
    if plan.sweep.trainable is not None:
        return _load_of_loop(folder, plan.sweep.trainable, dataset, record, scaling)
    from trainables.export.calibrated import load_calibrated

    encoder = encoder_setup(plan, sweep.store, dataset)
    try:
        return load_calibrated(
            dataset,
            (plan.sweep.model.name, plan.sweep.model.options),
            record.config,
            folder,
            scaling,
            encoder,
        )
    except (FileNotFoundError, ValueError) as error:
        raise UserError(f"{record.label}: its weights cannot be loaded: {error}") from None


def _load_reference(
    folder: Folder, dataset: Dataset, record: TrialRecord, scaling: Scaling
) -> CalibratedClassifier:
    from trainables.export.calibrated import CalibratedClassifier
    from trainables.models.simple import simple_model

    try:
        model = simple_model(folder.read(MODEL))
    except (OSError, ValueError) as error:
        raise UserError(f"{record.label}: it cannot be loaded: {first_line(error)}") from None
    return CalibratedClassifier(model, dataset.samples, scaling, dataset.classes, dataset.task)


def own_scaling(sweep: StoredSweep, record: TrialRecord) -> Scaling:
    """The scaling of a trial's network; its temperature if its predictions cannot be read."""
    from trainables.posthoc.scaling import Scaling

    try:
        return scaled_network(sweep.store.rows, record, sweep.plan.rule.scaling).scaling
    except (OSError, ValueError):
        return Scaling("temperature", record.outcome["temperature"])


def _load_of_loop(
    folder: Folder,
    trainable: TrainableSection,
    dataset: Dataset,
    record: TrialRecord,
    scaling: Scaling,
) -> CalibratedClassifier:
    """As :func:`load_trained`, by the user's function."""
    from trainables.export.loop_models import load_of_loop
    from trainables.plugins.arguments import describe_error

    assert trainable.load is not None  # load_same_data refuses the rest
    use_working_folder()
    try:
        return load_of_loop(
            dataset,
            (trainable.name, trainable.options),
            trainable.load,
            record.config,
            folder,
            scaling,
        )
    except Exception as error:  # whatever the user's function raises
        raise UserError(
            f"{record.label}: trainable.load = {trainable.load} fails: {describe_error(error)}"
        ) from error
