"""The trained classifiers of a sweep."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sweeps.errors import UserError, first_line
from sweeps.evidence.scaling import scaled_network
from sweeps.messages.formatting import resume_command
from sweeps.planning.checks import use_working_folder
from sweeps.planning.data import data_of
from sweeps.service.reading.stored import load_evidence
from sweeps.store.encoders import encoder_setup
from sweeps.store.identity import read_identity
from sweeps.sweep_file.sections.data import OWN_DATA

if TYPE_CHECKING:
    from torch import nn

    from sweeps.evidence.ensemble import Selected
    from sweeps.search.record import TrialRecord
    from sweeps.service.reading.stored import StoredSweep
    from trainables.data.core.base import Data, Dataset
    from trainables.data.core.types import Inputs
    from trainables.export.calibrated import CalibratedClassifier, CalibratedEnsemble
    from trainables.files.storage import Folder
    from trainables.posthoc.scaling import Scaling

MODEL: Final = "model.pt"
"""The file of a reference model in its folder."""


def load_same_data(sweep: StoredSweep) -> Dataset:
    """The data that a sweep was started with; of a loop that reads its own, some test samples.

    Raises:
        UserError: The data have changed, or the sweep's classifiers cannot be built from them.
    """
    from trainables.data.core.base import Dataset

    plan, store = sweep.plan, sweep.store
    dataset = data_of(plan.sweep)
    identity = read_identity(store.folder)
    if identity is not None and identity.digest != dataset.digest():
        raise UserError(
            f"the data are not those that sweep {plan.name!r} was started with: what new samples "
            "are normalised by is unknown; put the data back as they were"
        )
    if isinstance(dataset, Dataset):
        return dataset
    from trainables.export.loop_models import dataset_of_loop

    if (chosen := sweep.ranking.chosen) is None:
        raise UserError(f"sweep {plan.name!r} has no selected setting yet")
    record = chosen.judged[0]
    _, inputs = _of_loop(sweep, dataset, record)
    return dataset_of_loop(dataset, inputs, store.rows("test", record.number).labels)


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
    if offered is None and (ensemble := load_evidence(sweep.store).ensemble) is not None:
        offered = ensemble.offered
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
    from trainables.export.calibrated import CalibratedClassifier, load_calibrated

    if plan.sweep.trainable is not None:
        own = plan.sweep.dataset.name == OWN_DATA
        network, _ = _of_loop(sweep, data_of(plan.sweep) if own else dataset, record)
        given = dataset.samples, scaling, dataset.classes, dataset.task
        return CalibratedClassifier(network, *given)

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


def _of_loop(sweep: StoredSweep, data: Data, record: TrialRecord) -> tuple[nn.Module, Inputs]:
    """A trial's module by the user's function, and test samples."""
    from trainables.export.loop_models import load_of_loop
    from trainables.plugins.arguments import describe_error

    loop, store = sweep.plan.sweep.trainable, sweep.store
    assert loop is not None
    if loop.load is None:
        name = sweep.plan.name
        add = resume_command(f"{name} --set trainable.load=MODULE:FUNCTION", store.storage)
        raise UserError(
            f"sweep {name!r} was trained by a loop of your own, {loop.name}, which alone can build "
            f"its model: {add} names a function that loads it; what it has kept lies in "
            f"{store.trials_folder.uri}/NUMBER/checkpoints, and in MLflow"
        )
    folder = store.trial_folder(record.number)
    use_working_folder()
    try:
        return load_of_loop(data, (loop.name, loop.options), loop.load, record.config, folder)
    except Exception as error:  # whatever the user's function raises
        raise UserError(
            f"{record.label}: trainable.load = {loop.load} fails: {describe_error(error)}"
        ) from error
