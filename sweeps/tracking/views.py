"""What MLflow's pages show of an experiment, by the links that ``calsweep ui`` prints."""

from __future__ import annotations

import json
import uuid
from typing import Any

from optuna.distributions import CategoricalDistribution

from sweeps.search.space import SearchSpace
from sweeps.sweep_file.schema import SweepFile
from sweeps.tracking.internals import VIEW_LINK, chart_view, table_view, view_tag
from sweeps.tracking.run import PLACE, hyperparameter_columns, word_columns

_KEY = "calsweep"
_FIRST = ("epsilon", "gamma", "lam", "margin")
# Pixels: as much as what stands there needs, as MLflow cuts the rest off.
_PLACE, _METRIC, _ERROR, _TEMPERATURE, _NUMBER, _WORD = 100, 150, 134, 57, 74, 125
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
    columns = {f"tags.`{PLACE}`": _PLACE, f"tags.`{words.pop(objective)}`": _METRIC}
    error = words.pop("val_error", None)  # which may be the objective
    columns |= {} if error is None else {f"tags.`{error}`": _ERROR}
    columns |= {f"tags.`{words.pop('temperature')}`": _TEMPERATURE}
    # The loss is in the run's name, and on 1,440 pixels four hyperparameters find room.
    hyperparameters = _shown(tags) | _widths(sweep)
    columns |= {
        f"params.`{name}`": hyperparameters[name] for name in sorted(hyperparameters, key=_rank)
    }
    columns |= {"params.`loss`": _WORD}
    columns |= {f"tags.`{word}`": _METRIC for word in words.values()}
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


def _widths(sweep: SweepFile) -> dict[str, int]:
    """The parameters that a sweep searches; those whose values are words are wide."""
    found: dict[str, int] = {}
    for branch in SearchSpace(sweep).branches.values():
        columns = hyperparameter_columns(branch)
        for name, distribution in branch.items():
            is_word = isinstance(distribution, CategoricalDistribution) and any(
                isinstance(choice, str) for choice in distribution.choices
            )
            found[columns[name]] = max(_WORD if is_word else _NUMBER, found.get(columns[name], 0))
    return found


def _shown(tags: dict[str, str]) -> dict[str, int]:
    """The parameters that an experiment's view shows already, and their widths."""
    widths: dict[str, int] = json.loads(tags.get(VIEW_TAG, "{}")).get("columnWidths", {})
    found = {c[len("params.`") : -1]: w for c, w in widths.items() if c.startswith("params.`")}
    return {name: width for name, width in found.items() if name != "loss"}
