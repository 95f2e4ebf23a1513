"""The experiment of a dataset, which all sweeps on it share."""

from __future__ import annotations

from typing import Any

from sweeps.sweep_file.schema import SweepFile
from sweeps.tracking.address import artifact_location
from sweeps.tracking.internals import EXPERIMENT_KIND, deleted
from sweeps.tracking.views import VIEW_TAG, shared_view

OURS = {"calsweep": "1"}  # what the reader knows an experiment by


def dataset_experiment(client: Any, sweep: SweepFile, storage: str, uri: str) -> str:
    """The id of the dataset's experiment, made if it is not there.

    One of that name that somebody else has made is used: it may be the only one that this user may
    write to. A deleted one keeps its name in MLflow for ever, and stays deleted: a number is added.
    """
    experiment = _find_or_make(client, sweep.dataset.label, uri, storage)
    view = shared_view(sweep, experiment.tags)
    wanted = {**EXPERIMENT_KIND, **experiment.tags, **OURS, VIEW_TAG: view}
    for name, value in wanted.items():
        if experiment.tags.get(name) != value:
            client.set_experiment_tag(experiment.experiment_id, name, value)
    return str(experiment.experiment_id)


def our_experiments(client: Any) -> list[Any]:
    """All experiments that hold sweeps."""
    found: list[Any] = []
    token = None
    while True:
        page = client.search_experiments(filter_string="tags.calsweep = '1'", page_token=token)
        found += page
        token = page.token
        if not token:
            return found


def _find_or_make(client: Any, label: str, uri: str, storage: str) -> Any:
    from mlflow.exceptions import MlflowException

    place = artifact_location(uri, storage)
    name, number = label, 1
    while True:
        experiment = client.get_experiment_by_name(name)
        if experiment is None:
            try:
                client.create_experiment(name, f"{place}/{_folder(name)}" if place else None)
            except MlflowException as error:
                if error.error_code != "RESOURCE_ALREADY_EXISTS":  # else: another was faster
                    raise
        elif not deleted(experiment):
            return experiment
        else:
            number += 1
            name = f"{label} ({number})"


def _folder(name: str) -> str:
    return name.replace(" (", "-").rstrip(")")
