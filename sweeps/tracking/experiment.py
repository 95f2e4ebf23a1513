"""The experiment of a dataset, which all sweeps on the same data share."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from sweeps.results.best import DIGITS
from sweeps.store.sweep_store import SweepStore
from sweeps.sweep_file.schema import SweepFile
from sweeps.tracking.address import artifact_location, join_uri
from sweeps.tracking.rights import needs_right, writes_to
from trainables.files.storage import digest_of

OURS = {"calsweep": "1"}  # the tag by which the reader recognises an experiment
_MAKE_IT = "ask for it to be made and for EDIT on it, or name another one as tracking.experiment"
_DATA = "calsweep.data"  # the tag with the digest of an experiment's data
_DIGEST = 16  # hexadecimal digits
NAME_BYTES = 200  # of names that calsweep makes up; MLflow's databases have room for 256 characters


def dataset_experiment(client: Any, sweep: SweepFile, store: SweepStore, digest: str | None) -> Any:
    """The experiment of the sweep's data, created if necessary; NoRightError without permission.

    Its name is the dataset's label and a part of the digest, so other data with the same label have
    another experiment. A sweep with existing runs stays in their experiment, and a sweep that names
    an experiment uses that one. An existing experiment of that name is used, because the user may
    have permission for no other. A deleted experiment keeps its name in MLflow, so a number is
    added to the new name.
    """
    ours = our_experiments(client)
    experiment = _experiment_of(client, ours, store.sweep_id())
    own: dict[str, str] = {}
    if experiment is None:
        name = sweep.tracking.experiment or within_bytes(sweep.dataset.label, NAME_BYTES)
        if digest is not None and sweep.tracking.experiment is None:
            own = {_DATA: digest}
            name = next(
                (e.name for e in ours if e.tags.get(_DATA) == digest),
                f"{name}-{digest[:DIGITS]}",
            )
        experiment = _find_or_make(client, name, store.storage)
    wanted = {**own, **experiment.tags, **OURS}
    with writes_to(experiment.name):
        for name, value in wanted.items():
            if experiment.tags.get(name) != value:
                client.set_experiment_tag(experiment.experiment_id, name, value)
    return experiment


def our_experiments(client: Any) -> list[Any]:
    found = pages(client.search_experiments, filter_string="tags.calsweep = '1'")
    return [experiment for page in found for experiment in page]


def pages(search: Callable[..., Any], *arguments: Any, **options: Any) -> Iterator[Any]:
    """Page after page of a search of MLflow's client."""
    token = None
    while True:
        page = search(*arguments, **options, page_token=token)
        yield page
        if not (token := page.token):
            return


def _experiment_of(client: Any, ours: list[Any], sweep_id: str) -> Any:
    from mlflow.entities import ViewType

    ids = [experiment.experiment_id for experiment in ours]
    own = f"tags.`calsweep.sweep_id` = '{sweep_id}' and tags.role = 'sweep'"
    runs = client.search_runs(ids, own, ViewType.ALL, max_results=1) if ids else []
    return client.get_experiment(runs[0].info.experiment_id) if runs else None


def _find_or_make(client: Any, label: str, storage: str) -> Any:
    from mlflow.exceptions import MlflowException

    artifacts = artifact_location(client.tracking_uri, storage)
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
                if error.error_code != "RESOURCE_ALREADY_EXISTS":  # another process was faster
                    raise
        elif not deleted(experiment):
            return experiment
        else:
            number += 1
            name = f"{label} ({number})"


def _folder(name: str) -> str:
    """A folder name for an experiment, without ``#``, ``?`` and ``/``, which a URI reserves."""
    found = re.sub(r"[^\w.-]+", "-", name).strip("-.") or "experiment"
    return within_bytes(found, 100)


def within_bytes(name: str, most: int) -> str:
    """A name of so many bytes at most; a longer one is cut and gets its digest."""
    data = name.encode()
    if len(data) <= most:
        return name
    return f"{data[: most - _DIGEST - 1].decode(errors='ignore')}-{digest_of(data)}"


def deleted(entity: Any) -> bool:
    from mlflow.entities import LifecycleStage

    stage = entity.info.lifecycle_stage if hasattr(entity, "info") else entity.lifecycle_stage
    return bool(stage == LifecycleStage.DELETED)
