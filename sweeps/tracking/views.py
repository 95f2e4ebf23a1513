"""What MLflow's table of runs shows of an experiment, by the link that ``calsweep ui`` prints."""

from __future__ import annotations

import json

from sweeps.results.columns import shown_metrics
from sweeps.search.space import SearchSpace
from sweeps.sweep_file.schema import SweepFile
from sweeps.tracking.internals import VIEW_LINK, view_tag
from sweeps.tracking.run import hyperparameter_columns

_KEY = "calsweep"
VIEW_TAG = view_tag(_KEY)
LINK = VIEW_LINK.format(key=_KEY)


def shared_view(sweep: SweepFile, tags: dict[str, str]) -> str:
    """Which columns there are, and how the runs are sorted, as MLflow keeps a shared view.

    Args:
        sweep: The sweep whose hyperparameters are to be columns.
        tags: The experiment's; the hyperparameters of earlier sweeps stay columns.
    """
    searched = set(hyperparameter_columns(SearchSpace(sweep).searched_hyperparameters).values())
    columns = [f"params.`{name}`" for name in ("loss", *sorted(_shown(tags) | searched))]
    columns += [f"metrics.`{name}`" for name in shown_metrics(sweep.search.objective)]
    columns += ["tags.`role`", "tags.`state`"]
    order = f"metrics.`{sweep.search.objective}`"
    return json.dumps({"selectedColumns": columns, "orderByKey": order, "orderByAsc": True})


def _shown(tags: dict[str, str]) -> set[str]:
    """The parameters that an experiment's view shows already."""
    columns = json.loads(tags.get(VIEW_TAG, "{}")).get("selectedColumns", [])
    return {c[len("params.`") : -1] for c in columns if c.startswith("params.")} - {"loss"}
