"""Reads trials back from MLflow."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sweeps.errors import UserError
from sweeps.records import TrialRecord
from sweeps.tracking.client import check_answers


@dataclass(frozen=True)
class TrackedSweep:
    """The trials of one sweep, as MLflow has them.

    Attributes:
        sweep_id: Tells it from another sweep of the same name.
        name: The sweep's name.
        dataset: Name of the dataset.
        model: Name of the model.
        objective: What it minimised.
        guard: Its tolerance of validation error.
        records: Its trials, with the metrics of their last epoch as only history.
        run_ids: MLflow's id of each trial, by number.
        parent_id: MLflow's id of the sweep's own run.
    """

    sweep_id: str
    name: str
    dataset: str
    model: str
    objective: str
    guard: float
    records: list[TrialRecord]
    run_ids: dict[int, str]
    parent_id: str


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
    if uri.startswith("sqlite:///") and not Path(uri.removeprefix("sqlite:///")).exists():
        return []  # connecting would make an empty database
    groups: dict[str, list[Any]] = {}
    for run in _child_runs(uri, dataset, model):
        if "loss" not in run.data.params:
            continue  # it is being written just now
        groups.setdefault(run.data.tags["calsweep.sweep_id"], []).append(run)
    return [_sweep(sweep_id, runs) for sweep_id, runs in groups.items()]


def read_sweep_file(uri: str, parent_id: str) -> str:
    """The resolved sweep file, an artifact of a sweep's own run.

    Raises:
        UserError: It cannot be had.
    """
    from mlflow import MlflowClient
    from mlflow.exceptions import MlflowException

    try:
        with tempfile.TemporaryDirectory(prefix="calsweep-") as folder:
            path = MlflowClient(uri).download_artifacts(parent_id, "sweep.yaml", folder)
            return Path(path).read_text()
    except (MlflowException, OSError) as error:
        raise UserError(f"run {parent_id} has no sweep.yaml in {uri}: {error}") from None


def _child_runs(uri: str, dataset: str | None, model: str | None) -> Iterator[Any]:
    from mlflow import MlflowClient
    from mlflow.exceptions import MlflowException
    from sqlalchemy.exc import SQLAlchemyError

    conditions = ["tags.`calsweep.trial` LIKE '%'"]
    for name, value in (("dataset", dataset), ("model", model)):
        if value is not None:
            conditions.append(f"params.{name} = '{value.replace(chr(39), '')}'")
    try:
        client = MlflowClient(tracking_uri=uri)
        experiments = list(client.search_experiments(filter_string="tags.calsweep = '1'"))
        token = None
        while experiments:
            page = client.search_runs(
                [e.experiment_id for e in experiments],
                " and ".join(conditions),
                max_results=1000,
                page_token=token,
            )
            yield from page
            token = page.token
            if not token:
                return
    except (MlflowException, SQLAlchemyError) as error:
        raise UserError(f"tracking.uri = {uri!r}: {str(error).splitlines()[0]}") from None


def _sweep(sweep_id: str, runs: list[Any]) -> TrackedSweep:
    first = runs[0]
    records = sorted((_record(run) for run in runs), key=lambda record: record.number)
    return TrackedSweep(
        sweep_id=sweep_id,
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
