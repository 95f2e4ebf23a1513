"""All that leans on parts of MLflow that its documentation does not promise, in one place.

Each entry says what it leans on, why nothing public would do, since which version that holds, and
the test that fails when it changes.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from sweeps.tracking.run import RunChange

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
"""Environment variables of MLflow, where the user has not set them.

Leans on: their names and meanings, of which MLflow's pages describe some.
Why: its client and its server have no arguments for them; an unknown one is ignored.
Since: MLflow 3.17, the oldest that is allowed.
Test: tests/sweeps/tracking/test_internals.py::test_mlflow_knows_the_variable
"""

EXPERIMENT_KIND = {"mlflow.experimentKind": "custom_model_development"}
"""Tag of an experiment that is shown in the pages for training models.

Leans on: the tag's name and value, which MLflow's pages read.
Why: else its runs are shown as those of language models; nothing public chooses.
Since: MLflow 3.17, the oldest that is allowed.
Test: tests/sweeps/tracking/test_internals.py::test_mlflows_pages_know_views_and_kinds
"""

_SHARED_VIEW = "mlflow.sharedViewState."
# Of the link to an experiment: the pages for training models, and which shared view.
VIEW_LINK = "runs?workflowType=machine_learning&viewStateShareKey={key}"


_LOOPBACK = ("127.0.0.1", "localhost")
_NAME = "calsweep.localhost"


def browser_host(host: str) -> str:
    """The name by which a browser on this machine is to open the pages served at an address.

    Leans on: MLflow's pages open the panel of its assistant by themselves, over the last columns of
        the table, where the address has one of three names of this machine; and browsers know
        every name that ends in ``.localhost`` as this machine (RFC 6761).
    Why: nothing public keeps the panel closed.
    Since: MLflow 3.17.
    Test: tests/sweeps/test_command_line.py::test_runs_look_right_in_mlflows_own_ui
    """
    return _NAME if host in _LOOPBACK else host


_PAGES_OF_TRAINING = """<script>
if (!localStorage.getItem("mlflow.workflowType_v1"))
  localStorage.setItem("mlflow.workflowType_v1", '"machine_learning"');
</script></head>"""
SERVER = "calsweep"  # the name of the entry point in pyproject.toml


def training_server() -> Any:
    """MLflow's server, whose pages of a run are those for training models.

    Who has chosen the others in this browser keeps them.

    Leans on: the name under which MLflow's pages remember that choice, and that the application of
        an ``mlflow.app`` plugin is made as that of basic-auth is.
    Why: the links in the table of runs do not say which pages are meant, so that a run would open
        in those for language models; nothing public chooses.
    Since: MLflow 3.17, the oldest that is allowed.
    Test: tests/sweeps/test_command_line.py::test_runs_look_right_in_mlflows_own_ui
    """
    from flask import request
    from mlflow.server import app
    from mlflow.server.fastapi_app import create_fastapi_app

    def remember(response: Any) -> Any:
        if request.path == "/" and response.status_code == 200:
            response.direct_passthrough = False
            page = response.get_data(as_text=True)
            response.set_data(page.replace("</head>", _PAGES_OF_TRAINING))
            for name in ("ETag", "Last-Modified"):  # of what it was
                response.headers.pop(name, None)
        return response

    app.after_request(remember)
    return create_fastapi_app(app)


def server_environment(host: str, port: int) -> dict[str, str]:
    """Environment variables by which the server answers to :func:`browser_host` as well.

    Leans on: the form of the two variables, which MLflow's pages describe.
    Why: the server refuses names that it does not know.
    Since: MLflow 3.17.
    Test: tests/sweeps/test_command_line.py::test_runs_look_right_in_mlflows_own_ui
    """
    if browser_host(host) == host:
        return {}
    hosts = [f"{name}:{port}" for name in (*_LOOPBACK, _NAME)]
    return {
        "MLFLOW_SERVER_ALLOWED_HOSTS": ",".join(hosts),
        "MLFLOW_SERVER_CORS_ALLOWED_ORIGINS": ",".join(f"http://{name}" for name in hosts),
    }


def set_environment() -> None:
    """Set :data:`ENVIRONMENT`.

    Leans on: that MLflow reads some of it when it is imported.
    Why: so it has to be done before, and the user's own values stay.
    Since: MLflow 3.17, the oldest that is allowed.
    Test: tests/sweeps/tracking/test_internals.py::test_mlflow_knows_the_variable
    """
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)


def view_tag(key: str) -> str:
    """Name of the experiment's tag that holds a shared view.

    Leans on: how MLflow's pages keep a view that somebody shared.
    Why: nothing public makes such a view.
    Since: MLflow 3.17, the oldest that is allowed.
    Test: tests/sweeps/tracking/test_internals.py::test_mlflows_pages_know_views_and_kinds
    """
    return _SHARED_VIEW + key


def table_view(columns: dict[str, int], order_by: str) -> dict[str, Any]:
    """The part of a shared view that is the table of runs.

    Leans on: the form in which MLflow's pages write it.
    Why: nothing public makes such a view.
    Since: MLflow 3.17, the oldest that is allowed.
    Test: tests/sweeps/tracking/test_internals.py::test_mlflows_pages_know_views_and_kinds

    Args:
        columns: Names and widths in pixels, in their order.
        order_by: Of these, what the runs are sorted by.
    """
    name = "attributes.`Run Name`"
    widths = {name: 225, **columns}
    return {
        "selectedColumns": list(columns),
        "columnOrder": list(widths),
        "columnWidths": widths,
        "orderByKey": order_by,
        "orderByAsc": True,
    }


def chart_view(charts: list[dict[str, Any]], section: str) -> dict[str, Any]:
    """The part of a shared view that is the charts, of all runs, in one section.

    Leans on: the form in which MLflow's pages write it.
    Why: nothing public makes such a view.
    Since: MLflow 3.17, the oldest that is allowed.
    Test: tests/sweeps/tracking/test_internals.py::test_mlflows_pages_know_views_and_kinds
    """
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

    Leans on: SQLAlchemy reads what follows a ``?`` as options and decodes percent signs. MLflow
        makes the folder of a ``sqlite:///`` address without decoding it, which would leave an empty
        folder of the encoded name; it does not where the driver is named.
    Why: MLflow has no function for it.
    Since: MLflow 3.17 with SQLAlchemy 2.0.
    Test: tests/sweeps/tracking/test_internals.py::test_sqlalchemy_reads_the_path_that_was_meant
    """
    encoded = quote(str(path), safe=" +/")
    driver = "" if encoded == str(path) else "+pysqlite"
    return f"sqlite{driver}:///{encoded}"


def sqlite_path(uri: str) -> Path | None:
    """The file of a SQLite address; None for others.

    Leans on: what :func:`sqlite_uri` leans on.
    Why: a file that is not there is not to be made by connecting.
    Since: MLflow 3.17 with SQLAlchemy 2.0.
    Test: tests/sweeps/tracking/test_internals.py::test_sqlalchemy_reads_the_path_that_was_meant
    """
    scheme, mark, place = uri.partition(":///")
    if not mark or scheme.partition("+")[0] != "sqlite":
        return None
    return Path(unquote(place.partition("?")[0]))


def make_tables(path: Path) -> None:
    """Make MLflow's tables in a SQLite file.

    Leans on: that connecting makes them.
    Why: the command for it migrates tables that are there already.
    Since: MLflow 3.17, the oldest that is allowed.
    Test: tests/sweeps/tracking/test_address.py::test_mlflows_database_is_made_whole_or_not_at_all
    """
    from mlflow import MlflowClient

    MlflowClient(sqlite_uri(path)).search_experiments(max_results=1)


def upload(folder: str, artifact_uri: str, tracking_uri: str) -> None:
    """Upload what is in a folder to a run's artifacts.

    Leans on: ``get_artifact_repository``, which MLflow's pages name to writers of plugins alone.
    Why: ``MlflowClient.log_artifacts`` reads the whole run again to learn where they are.
    Since: MLflow 3.17, the oldest that is allowed.
    Test: tests/sweeps/tracking/test_mirror.py::test_artifacts_and_the_kind_of_experiment
    """
    from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository

    get_artifact_repository(artifact_uri, tracking_uri=tracking_uri).log_artifacts(folder)


class RunTables:
    """MLflow's runs in a SQLite file, many of which are written in one transaction.

    Args:
        client: MLflow's, for such a file.
        experiment_id: Of the experiment that the runs are in.

    Leans on: the store behind the client, its sessions, its tables of runs, and its checks of names
        and values.
    Why: the client has no call for several runs, and one of its takes half a dozen transactions and
        an object per number, ten times as long.
    Since: MLflow 3.17, the oldest that is allowed.
    Test: tests/sweeps/tracking/test_internals.py::test_many_runs_at_once_are_what_the_client_writes
    """

    def __init__(self, client: Any, experiment_id: str) -> None:
        self._store = client._tracking_client.store
        self._experiment = self._store.get_experiment(experiment_id)

    def new_run_id(self) -> str:
        """An id for a new run, as MLflow makes them."""
        return uuid.uuid4().hex

    def artifact_uri(self, run_id: str) -> str:
        """Where the artifacts of a run are."""
        return f"{self._experiment.artifact_location}/{run_id}/artifacts"

    def write(self, changes: Sequence[RunChange]) -> None:
        """Write all of it, or nothing.

        Raises:
            MlflowException: A run or the experiment was deleted, a name is not allowed, or the file
                cannot be written.
        """
        from mlflow.exceptions import MlflowException
        from mlflow.store.tracking.dbmodels import models
        from mlflow.utils.validation import _validate_metric_name, _validate_param, _validate_tag

        for name in {metric[0] for change in changes for metric in change.metrics}:
            _validate_metric_name(name)
        old = {change.run_id for change in changes if change.made is None}
        with self._store.ManagedSessionMaker(read_only=False) as session:
            run, experiment = models.SqlRun, models.SqlExperiment
            active = session.query(run.run_uuid).filter_by(lifecycle_stage="active")
            active = active.filter(run.run_uuid.in_(old)).count() if old else 0
            ours = session.query(experiment).filter_by(
                experiment_id=int(self._experiment.experiment_id), lifecycle_stage="active"
            )
            if active < len(old) or not ours.count():
                raise MlflowException("deleted")

            def add(model: Any, rows: Iterable[dict[str, Any]], instead: str) -> None:
                if rows := list(rows):
                    statement = model.__table__.insert().prefix_with(f"OR {instead}")
                    session.execute(statement, rows)

            add(run, (self._run(c) for c in changes if c.made is not None), "FAIL")
            names = [
                {"run_uuid": c.run_id, "key": "mlflow.runName", "value": c.made[0]}
                for c in changes
                if c.made is not None
            ]
            add(models.SqlTag, names, "REPLACE")
            for model, check, what in (
                (models.SqlTag, _validate_tag, "tags"),
                (models.SqlParam, _validate_param, "params"),
            ):
                checked = [(c.run_id, check(*i)) for c in changes for i in getattr(c, what).items()]
                rows = (
                    {"run_uuid": run_id, "key": i.key, "value": i.value} for run_id, i in checked
                )
                add(model, rows, "REPLACE" if what == "tags" else "IGNORE")
            metrics = [self._metric(c.run_id, *metric) for c in changes for metric in c.metrics]
            add(models.SqlMetric, metrics, "IGNORE")
            latest = {(row["run_uuid"], row["key"]): row for row in metrics}
            add(models.SqlLatestMetric, latest.values(), "REPLACE")

    def _run(self, change: RunChange) -> dict[str, Any]:
        assert change.made is not None
        name, began = change.made
        return {
            "run_uuid": change.run_id,
            "name": name,
            "experiment_id": int(self._experiment.experiment_id),
            "artifact_uri": self.artifact_uri(change.run_id),
            "user_id": "unknown",
            "status": "RUNNING",
            "start_time": began,
            "lifecycle_stage": "active",
            "source_type": "UNKNOWN",
            "source_name": "",
            "source_version": "",
            "entry_point_name": "",
        }

    def _metric(
        self, run_id: str, name: str, value: float, time_stamp: int, step: int
    ) -> dict[str, Any]:
        is_nan, value = self._store.sanitize_metric_value(value)
        known = {"value": value, "is_nan": is_nan, "timestamp": time_stamp, "step": step}
        return {"run_uuid": run_id, "key": name, **known}


def deleted(entity: Any) -> bool:
    """Whether an experiment or a run lies in MLflow's trash.

    Leans on: the word for it.
    Why: MLflow has a name for the word in a private module only.
    Since: MLflow 3.17, the oldest that is allowed.
    Test: tests/sweeps/tracking/test_writer.py::test_a_deleted_run_stops_no_other
    """
    stage = entity.info.lifecycle_stage if hasattr(entity, "info") else entity.lifecycle_stage
    return bool(stage == "deleted")


def machine_monitors() -> list[Any]:
    """What measures this machine: CPUs and memory, disk, network, and GPUs where there are any.

    Leans on: MLflow's monitors and their three methods.
    Why: ``mlflow.start_run(log_system_metrics=True)`` and the ``SystemMetricsMonitor`` behind it
        end with the first call that a server does not answer, write beside the sweep's one writer,
        and on other nodes would need the server's address and credentials there.
    Since: MLflow 3.17, the oldest that is allowed.
    Test: tests/sweeps/tracking/test_machine.py::test_a_machine_is_measured_by_mlflows_names
    """
    from mlflow.system_metrics.metrics.cpu_monitor import CPUMonitor
    from mlflow.system_metrics.metrics.disk_monitor import DiskMonitor
    from mlflow.system_metrics.metrics.gpu_monitor import GPUMonitor
    from mlflow.system_metrics.metrics.network_monitor import NetworkMonitor
    from mlflow.system_metrics.metrics.rocm_monitor import ROCMMonitor

    found = [CPUMonitor(), DiskMonitor(), NetworkMonitor()]
    for kind in (GPUMonitor, ROCMMonitor):
        with suppress(Exception):  # of many kinds, where there is no such GPU
            found.append(kind())
            break
    return found
