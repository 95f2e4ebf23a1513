"""The experiment of a dataset, which all sweeps on the same data share."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from sweeps.results.best import DIGITS
from sweeps.sweep_file.schema import SweepFile
from sweeps.tracking.address import artifact_location, join_uri
from sweeps.tracking.rights import needs_right, writes_to

OURS = {"calsweep": "1"}  # what the reader knows an experiment by
_MAKE_IT = "ask for it to be made and for EDIT on it, or name another one as tracking.experiment"
_DATA = "calsweep.data"  # the tag with the digest of an experiment's data


def dataset_experiment(
    client: Any, sweep: SweepFile, sweep_id: str, digest: str | None, storage: str, uri: str
) -> Any:
    """The experiment of the sweep's data, made if it is not there.

    It is called by the dataset's label and a part of the digest; other data of that label have
    another. A sweep that has runs somewhere stays there, and one that names an experiment gets
    that. An experiment of that name that somebody else has made is used: it may be the only one
    that this user may write to. A deleted one keeps its name in MLflow for ever, and stays deleted:
    a number is added.

    Args:
        client: An MLflow client.
        sweep: The sweep.
        sweep_id: What its runs are known by.
        digest: Of its data; None if that was not kept, so only the label identifies them.
        storage: Path or URI of the sweep store.
        uri: MLflow's address.

    Raises:
        NoRightError: The user may not write to it, or not make it.
    """
    ours = our_experiments(client)
    experiment = _experiment_of(client, ours, sweep_id)
    own: dict[str, str] = {}
    if experiment is None:
        name = sweep.tracking.experiment or sweep.dataset.label
        if digest is not None and sweep.tracking.experiment is None:
            own = {_DATA: digest}
            name = next(
                (e.name for e in ours if e.tags.get(_DATA) == digest),
                f"{name}-{digest[:DIGITS]}",
            )
        experiment = _find_or_make(client, name, uri, storage)
    wanted = {**own, **experiment.tags, **OURS}
    with writes_to(experiment.name):
        for name, value in wanted.items():
            if experiment.tags.get(name) != value:
                client.set_experiment_tag(experiment.experiment_id, name, value)
    return experiment


def our_experiments(client: Any) -> list[Any]:
    """All experiments that hold sweeps."""
    found = pages(client.search_experiments, filter_string="tags.calsweep = '1'")
    return [experiment for page in found for experiment in page]


def pages(search: Callable[..., Any], *arguments: Any, **options: Any) -> Iterator[Any]:
    """Page after page of a search of MLflow's client."""
    token = None
    while True:
        page = search(*arguments, **options, page_token=token)
        yield page
        token = page.token
        if not token:
            return


def _experiment_of(client: Any, ours: list[Any], sweep_id: str) -> Any:
    """The experiment that a sweep's own run is in; None if it has none yet."""
    from mlflow.entities import ViewType

    ids = [experiment.experiment_id for experiment in ours]
    own = f"tags.`calsweep.sweep_id` = '{sweep_id}' and tags.role = 'sweep'"
    runs = client.search_runs(ids, own, ViewType.ALL, max_results=1) if ids else []
    return client.get_experiment(runs[0].info.experiment_id) if runs else None


def _find_or_make(client: Any, label: str, uri: str, storage: str) -> Any:
    from mlflow.exceptions import MlflowException

    artifacts = artifact_location(uri, storage)
    name, number = label, 1
    while True:
        with writes_to(name):
            experiment = client.get_experiment_by_name(name)
        if experiment is None:
            try:
                place = join_uri(artifacts, _folder(name)) if artifacts else None
                with needs_right(f"make the experiment {name!r}", _MAKE_IT):
                    client.create_experiment(name, place)
            except MlflowException as error:
                if error.error_code != "RESOURCE_ALREADY_EXISTS":  # else: another was faster
                    raise
        elif not deleted(experiment):
            return experiment
        else:
            number += 1
            name = f"{label} ({number})"


def _folder(name: str) -> str:
    """A folder's name for an experiment's: in a URI, ``#``, ``?`` and ``/`` have other meanings."""
    return re.sub(r"[^\w.-]+", "-", name).strip("-.") or "experiment"


def deleted(entity: Any) -> bool:
    """Whether an experiment or a run lies in MLflow's trash."""
    from mlflow.entities import LifecycleStage

    stage = entity.info.lifecycle_stage if hasattr(entity, "info") else entity.lifecycle_stage
    return bool(stage == LifecycleStage.DELETED)
