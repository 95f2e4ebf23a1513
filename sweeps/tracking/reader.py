"""Reads trials back from MLflow."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from typing import Any

from sweeps.errors import UserError, first_line
from sweeps.results.best import Advice, TrackedSweep, data_unlike_all, judged_setting, named
from sweeps.search.ranking import Ranking
from sweeps.search.record import TrialRecord
from sweeps.search.rules import Limit, Rule
from sweeps.tracking.address import check_answers, make_client
from sweeps.tracking.experiment import our_experiments, pages
from sweeps.tracking.run import ADVICE, METRICS
from sweeps.tracking.run_files import RunFiles
from sweeps.tracking.sqlite import sqlite_path
from trainables.contract.setting import Setting


def tracked_sweeps(
    uri: str, dataset: str | None = None, model: str | None = None
) -> list[TrackedSweep]:
    """All sweeps in MLflow, or those on a dataset and model; UserError if it does not answer."""
    check_answers(uri)
    if (path := sqlite_path(uri)) is not None and not path.exists():
        return []  # connecting would create an empty database
    from mlflow.exceptions import MlflowException
    from sqlalchemy.exc import SQLAlchemyError

    try:
        client = make_client(uri)
        runs = {run.info.run_id: run for run in _parent_runs(client)}
        parents = [_about(run) for run in runs.values()]
        found = [
            _with_trials(client, sweep, runs[sweep.parent_id].info.experiment_id)
            for sweep in named(parents, dataset, model)
        ]
    except (MlflowException, SQLAlchemyError) as error:
        raise UserError(f"tracking.uri = {uri!r}: {first_line(error)}") from None
    return [sweep for sweep in found if sweep.records]


def read_sweep_file(uri: str, parent_id: str) -> str:
    """The resolved sweep file, an artifact of a sweep's own run; UserError if it is unreadable."""
    from mlflow.exceptions import MlflowException

    client = make_client(uri)
    try:
        run = client.get_run(parent_id)
        return RunFiles.of(run, client.tracking_uri).read("sweep.yaml").decode()
    except (MlflowException, OSError) as error:
        raise UserError(f"run {parent_id} has no sweep.yaml in {uri}: {error}") from None


def _parent_runs(client: Any) -> list[Any]:
    ids = [experiment.experiment_id for experiment in our_experiments(client)]
    found = _runs(client, ids, "tags.role = 'sweep'") if ids else []
    return [run for run in found if "guard" in run.data.params]


def _about(run: Any) -> TrackedSweep:
    params = run.data.params
    return TrackedSweep(
        name=run.data.tags["calsweep.sweep"],
        dataset=params["dataset"],
        data=params.get("dataset_digest") or data_unlike_all(run.data.tags["calsweep.sweep_id"]),
        model=params["model"],
        model_options=params["model_options"],
        rule=Rule(
            params["objective"],
            float(params["guard"]),
            tuple(Limit(**each) for each in json.loads(params.get("constraints", "[]"))),
            tuple(params.get("other_objectives", "").split()),
        ),
        verdict=run.data.tags.get("verdict"),
        recommended=Advice.from_json(json.loads(run.data.tags.get(ADVICE, "null"))),
        candidates=int(run.data.tags.get("candidates", 0)) or None,
        records=[],
        run_ids={},
        parent_id=run.info.run_id,
    )


def _with_trials(client: Any, sweep: TrackedSweep, experiment: str) -> TrackedSweep:
    found = _runs(client, [experiment], f"tags.mlflow.parentRunId = '{sweep.parent_id}'")
    runs = [run for run in found if "loss" in run.data.params]  # else it is still being written
    by_number = {int(run.data.tags["calsweep.trial"]): run for run in runs}
    records = sorted((_record(run) for run in runs), key=lambda record: record.number)
    ranking = Ranking(records, sweep.rule)
    shown = ranking.chosen, judged_setting(ranking, sweep.recommended)
    judged = {r.number: r for each in shown if each is not None for r in each.judged}
    for record in judged.values():
        record.history = [{**record.outcome, **_all_metrics(client, by_number[record.number])}]
    ids = {number: run.info.run_id for number, run in by_number.items()}
    return replace(sweep, records=records, run_ids=ids)


def _all_metrics(client: Any, run: Any) -> dict[str, float]:
    """A trial's metrics with the ends of their intervals.

    Empty before the trial's files are there.
    """
    from mlflow.exceptions import MlflowException

    with suppress(MlflowException, OSError):
        found = json.loads(RunFiles.of(run, client.tracking_uri).read(METRICS))
        return {name: value for name, value in found.items() if value is not None}
    return {}


def _runs(client: Any, experiments: list[str], condition: str) -> list[Any]:
    found = pages(client.search_runs, experiments, condition, max_results=100)
    return [run for page in found for run in page]


def _record(run: Any) -> TrialRecord:
    tags = run.data.tags
    return TrialRecord(
        number=int(tags["calsweep.trial"]),
        role=tags["role"],
        setting=Setting(run.data.params["loss"], json.loads(tags["calsweep.hyperparameters"])),
        seed=int(run.data.params["seed"]),
        started=run.info.start_time / 1000,
        state=tags["state"],
        reason=tags.get("reason"),
        ended=run.info.end_time / 1000 if run.info.end_time else None,
        history=[dict(run.data.metrics)] if run.data.metrics else [],
    )
