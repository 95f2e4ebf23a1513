"""The view of MLflow's UI that shows a sweep as a ranked leaderboard, without a click."""

from __future__ import annotations

import json

from sweeps.search.plan import Plan
from sweeps.tracking.run import RANK, SWEEP, word_columns

_KEY = "calsweep"
TAG = f"mlflow.sharedViewState.{_KEY}"  # of the experiment
LOCAL = "http://127.0.0.1:5000"  # where `calsweep ui` serves by default


def leaderboard_view(plan: Plan) -> str:
    """The value of :data:`TAG`: the runs of a sweep by rank, with the metrics of its tables."""
    columns = (RANK, *word_columns(plan.rule.objective).values())
    return json.dumps(
        {
            "orderByKey": _column(RANK),
            "orderByAsc": True,
            "selectedColumns": [*map(_column, columns), "params.`loss`", "params.`seed`"],
            "searchFilter": f"tags.{SWEEP} = '{plan.name}'",
        }
    )


def leaderboard_link(address: str, experiment_id: str) -> str:
    """The link to an experiment's leaderboard on a server.

    Without ``workflowType``, MLflow shows its pages for language models.
    """
    asked = f"viewStateShareKey={_KEY}&workflowType=machine_learning"
    return f"{address}/#/experiments/{experiment_id}/runs?{asked}"


def _column(tag: str) -> str:
    return f"tags.`{tag}`"
