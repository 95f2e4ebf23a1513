"""Reads trials back from MLflow."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sweeps.errors import UserError, first_line
from sweeps.results.best import TrackedSweep
from sweeps.search.ranking import guard_excess, guard_reference
from sweeps.search.record import TrialRecord
from sweeps.tracking.address import check_answers, make_client
from sweeps.tracking.experiment import our_experiments
from sweeps.tracking.internals import sqlite_path

_RUNS_PER_PAGE = 100


def tracked_sweeps(
    uri: str, dataset: str | None = None, model: str | None = None
) -> list[TrackedSweep]:
    """All sweeps in MLflow, or those on a dataset and model.

    Args:
        uri: MLflow's address.
        dataset: Only this dataset.
        model: Only this model.

    Raises:
        UserError: The address does not answer.
    """
    check_answers(uri)
    path = sqlite_path(uri)
    if path is not None and not path.exists():
        return []  # connecting would make an empty database
    from mlflow.exceptions import MlflowException
    from sqlalchemy.exc import SQLAlchemyError

    try:
        client = make_client(uri)
        sweeps = [_deciding_runs(client, parent) for parent in _parent_runs(client, dataset, model)]
    except (MlflowException, SQLAlchemyError) as error:
        raise UserError(f"tracking.uri = {uri!r}: {first_line(error)}") from None
    return [_sweep(runs) for runs in sweeps if runs]


def read_sweep_file(uri: str, parent_id: str) -> str:
    """The resolved sweep file, an artifact of a sweep's own run.

    Raises:
        UserError: It cannot be had.
    """
    from mlflow.exceptions import MlflowException

    try:
        with tempfile.TemporaryDirectory(prefix="calsweep-") as folder:
            path = make_client(uri).download_artifacts(parent_id, "sweep.yaml", folder)
            return Path(path).read_text()
    except (MlflowException, OSError) as error:
        raise UserError(f"run {parent_id} has no sweep.yaml in {uri}: {error}") from None


def _parent_runs(client: Any, dataset: str | None, model: str | None) -> list[Any]:
    """The sweeps' own runs.

    Names are compared here: MLflow's filters know no way to write one with both kinds of quotes.
    """
    ids = [experiment.experiment_id for experiment in our_experiments(client)]
    wanted = {"dataset": dataset, "model": model}
    return [
        run
        for run in _runs(client, ids, "tags.role = 'sweep'", [])
        if "guard" in run.data.params
        and all(run.data.params.get(name) == given for name, given in wanted.items() if given)
    ]


def _deciding_runs(client: Any, parent: Any) -> list[Any]:
    """The runs of a sweep's trials, as far as they are needed to choose among them.

    Reading a run takes MLflow some milliseconds, and a long sweep has thousands. So the trials of
    the search itself are read last, only those that finished, by their objective: once there are
    more feasible ones of these than settings were trained again, none that follows can be chosen,
    nor be one of the settings trained again.
    """
    objective, guard = parent.data.params["objective"], float(parent.data.params["guard"])
    own = f"tags.mlflow.parentRunId = '{parent.info.run_id}'"
    where = [parent.info.experiment_id]
    runs = list(_runs(client, where, f"{own} and tags.role != 'search'", []))
    finished = f"{own} and tags.role = 'search' and tags.state = 'finished'"
    order = [f"metrics.`{objective}` ASC", "attributes.start_time ASC"]
    for page in _pages(client, where, finished, order):
        runs += page
        if _decided([_record(run) for run in runs if _is_written(run)], guard):
            break
    return [run for run in runs if _is_written(run)]


def _is_written(run: Any) -> bool:
    """Whether a run has its parameters; one without is being written just now."""
    return "loss" in run.data.params


def _decided(records: list[TrialRecord], guard: float) -> bool:
    finished = [r for r in records if r.state == "finished" and "val_error" in r.outcome]
    reference = guard_reference([r for r in finished if r.role == "baseline"])
    if reference is None:
        return False
    again = {record.setting for record in records if record.role == "finalist"}
    searched = [record for record in finished if record.role == "search"]
    feasible = sum(guard_excess(record, reference, guard) <= 0 for record in searched)
    return feasible > len(again)


def _runs(client: Any, experiments: list[str], condition: str, order: list[str]) -> Iterator[Any]:
    for page in _pages(client, experiments, condition, order) if experiments else ():
        yield from page


def _pages(client: Any, experiments: list[str], condition: str, order: list[str]) -> Iterator[Any]:
    token = None
    while True:
        page = client.search_runs(
            experiments, condition, max_results=_RUNS_PER_PAGE, order_by=order, page_token=token
        )
        yield page
        token = page.token
        if not token:
            return


def _sweep(runs: list[Any]) -> TrackedSweep:
    first = runs[0]
    records = sorted((_record(run) for run in runs), key=lambda record: record.number)
    return TrackedSweep(
        name=first.data.tags["calsweep.sweep"],
        dataset=first.data.params["dataset"],
        model=first.data.params["model"],
        objective=first.data.params["objective"],
        guard=float(first.data.params["guard"]),
        records=records,
        run_ids={int(run.data.tags["calsweep.trial"]): run.info.run_id for run in runs},
        parent_id=first.data.tags["mlflow.parentRunId"],
    )


def _record(run: Any) -> TrialRecord:
    tags = run.data.tags
    return TrialRecord(
        number=int(tags["calsweep.trial"]),
        role=tags["role"],
        loss=run.data.params["loss"],
        hyperparameters=json.loads(tags["calsweep.hyperparameters"]),
        seed=int(run.data.params["seed"]),
        started=run.info.start_time / 1000,
        state=tags["state"],
        reason=tags.get("reason"),
        ended=run.info.end_time / 1000 if run.info.end_time else None,
        history=[dict(run.data.metrics)] if run.data.metrics else [],
    )
