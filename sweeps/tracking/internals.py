"""All that leans on parts of MLflow that its documentation does not promise, in one place.

Each entry says what it is, why it is needed, and the oldest MLflow for which it is known to hold.
``tests/sweeps/tracking/test_internals.py`` fails when one of them changes.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

# Environment variables of MLflow (3.17), set unless the user has set them. Those without a word in
# its reference are among them; an unknown one would be ignored without a word.
ENVIRONMENT = {
    # Its own retries would hold a sweep up for minutes; the writer retries by itself.
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    # Eight further processes of a server, which judge the texts of language models.
    "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
    "MLFLOW_CONFIGURE_LOGGING": "false",  # its messages go into our log
    "GIT_PYTHON_REFRESH": "quiet",  # of GitPython, which MLflow imports
}

# Tags of an experiment that MLflow's pages read (3.17): that it is shown in the pages for training
# models instead of those for language models, and views of its runs that somebody shared.
EXPERIMENT_KIND = {"mlflow.experimentKind": "custom_model_development"}
_SHARED_VIEW = "mlflow.sharedViewState."
# Of the link to an experiment: the pages for training models, and which shared view.
VIEW_LINK = "runs?workflowType=machine_learning&viewStateShareKey={key}"


def set_environment() -> None:
    """Set :data:`ENVIRONMENT`; before MLflow is imported, as it reads some of it then."""
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)


def view_tag(key: str) -> str:
    """Name of the experiment's tag that holds a shared view."""
    return _SHARED_VIEW + key


def table_view(columns: dict[str, int], order_by: str) -> dict[str, Any]:
    """The part of a shared view that is the table of runs (3.17).

    Args:
        columns: Names and widths in pixels, in their order.
        order_by: Of these, what the runs are sorted by.
    """
    name = "attributes.`Run Name`"
    widths = {name: 230, **columns}
    return {
        "selectedColumns": list(columns),
        "columnOrder": list(widths),
        "columnWidths": widths,
        "orderByKey": order_by,
        "orderByAsc": True,
    }


def chart_view(charts: list[dict[str, Any]], section: str) -> dict[str, Any]:
    """The part of a shared view that is the charts, of all runs, in one section (3.17)."""
    common = {"metricSectionId": section, "deleted": False, "isGenerated": False}
    lines = {"scaleType": "linear", "xAxisKey": "step", "lineSmoothness": 0, "yAxisKey": "metric"}
    return {
        "compareRunCharts": [
            {**common, **(lines if chart["type"] == "LINE" else {}), **chart} for chart in charts
        ],
        "compareRunSections": [
            {
                "uuid": section,
                "name": "calsweep",
                "display": True,
                "isReordered": False,
                "deleted": False,
                "isGenerated": False,
            }
        ],
        "runsHiddenMode": "SHOW_ALL",
    }


def sqlite_uri(path: Path) -> str:
    """The address of a SQLite file, for any path.

    SQLAlchemy (2.1) reads what follows a ``?`` as options and decodes percent signs. MLflow (3.17)
    makes the folder of a ``sqlite:///`` address without decoding it, which would leave an empty
    folder of the encoded name; it does not where the driver is named.
    """
    encoded = quote(str(path), safe=" +/")
    driver = "" if encoded == str(path) else "+pysqlite"
    return f"sqlite{driver}:///{encoded}"


def sqlite_path(uri: str) -> Path | None:
    """The file of a SQLite address; None for others."""
    scheme, mark, place = uri.partition(":///")
    if not mark or scheme.partition("+")[0] != "sqlite":
        return None
    return Path(unquote(place.partition("?")[0]))


def make_tables(path: Path) -> None:
    """Make MLflow's tables in a SQLite file: connecting does that (3.17)."""
    from mlflow import MlflowClient

    MlflowClient(sqlite_uri(path)).search_experiments(max_results=1)


def deleted(entity: Any) -> bool:
    """Whether an experiment or a run lies in MLflow's trash."""
    stage = entity.info.lifecycle_stage if hasattr(entity, "info") else entity.lifecycle_stage
    return bool(stage == "deleted")
