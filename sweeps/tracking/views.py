"""What MLflow's pages show of an experiment, by the links that ``calsweep ui`` prints."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable
from typing import Any

from sweeps.search.space import SearchSpace
from sweeps.sweep_file.schema import SweepFile
from sweeps.tracking.internals import VIEW_LINK, chart_view, table_view, view_tag
from sweeps.tracking.run import PLACE, hyperparameter_columns, word_columns

_KEY = "calsweep"
_NARROW, _WIDE = 75, 150
_FIRST = ("epsilon", "gamma", "lam", "margin")
VIEW_TAG = view_tag(_KEY)
LINK = VIEW_LINK.format(key=_KEY)
CHARTS_LINK = f"{LINK}&compareRunsMode=CHART"


def shared_view(sweep: SweepFile, tags: dict[str, str]) -> str:
    """Which columns there are, how the runs are sorted, and which charts, as MLflow keeps it.

    Args:
        sweep: The sweep whose hyperparameters are to be columns.
        tags: The experiment's; the hyperparameters of earlier sweeps stay columns.
    """
    objective = sweep.objective
    words = word_columns(objective)
    searched = set(hyperparameter_columns(SearchSpace(sweep).searched_hyperparameters).values())
    columns = {f"tags.`{PLACE}`": 95, f"tags.`{words.pop(objective)}`": _WIDE}
    error = words.pop("val_error", None)  # which may be the objective
    columns |= {f"tags.`{word}`": _NARROW for word in (error, "T") if word is not None}
    # The loss is in the run's name, and on 1,440 pixels four hyperparameters find room.
    columns |= {f"params.`{name}`": _NARROW for name in sorted(_shown(tags) | searched, key=_rank)}
    columns |= {"params.`loss`": 120}
    columns |= {f"tags.`{word}`": _WIDE for word in words.values() if word != "T"}
    return json.dumps(
        {
            **table_view(columns, order_by=f"tags.`{PLACE}`"),
            **chart_view(_charts(sweep, objective), section=_id("charts")),
        }
    )


def _charts(sweep: SweepFile, objective: str) -> list[dict[str, Any]]:
    """Hyperparameters against the objective, the objective against the error, and over epochs."""
    branches = SearchSpace(sweep).branches.values()
    axes = dict.fromkeys(tuple(sorted(names)) for names in branches if names)
    parallel = [
        {
            "type": "PARALLEL",
            "uuid": _id("parallel", *names),
            "displayName": f"{', '.join(names)} and {objective}",
            "selectedParams": ["loss", *hyperparameter_columns(names).values()],
            "selectedMetrics": [objective],
            "showAllRuns": True,
        }
        for names in axes
    ]
    scatter = {
        "type": "SCATTER",
        "uuid": _id("scatter"),
        "displayName": f"{objective} against val_error",
        "xaxis": {"key": "val_error", "type": "METRIC"},
        "yaxis": {"key": objective, "type": "METRIC"},
        "runsCountToCompare": 100,
    }
    lines = [
        {"type": "LINE", "uuid": _id("line", name), "displayName": name, "metricKey": name}
        for name in dict.fromkeys((objective, sweep.scheduler.metric, "val_error"))
    ]
    return [*parallel, scatter, *lines]


def _id(*words: str) -> str:
    """The same for the same chart, so that a view that is written again is the same."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, "/".join(("calsweep", *words))))


def _rank(hyperparameter: str) -> tuple[bool, str]:
    """What most losses have comes first."""
    return hyperparameter not in _FIRST, hyperparameter


def _shown(tags: dict[str, str]) -> set[str]:
    """The parameters that an experiment's view shows already."""
    columns: Iterable[str] = json.loads(tags.get(VIEW_TAG, "{}")).get("selectedColumns", [])
    return {c[len("params.`") : -1] for c in columns if c.startswith("params.")} - {"loss"}
