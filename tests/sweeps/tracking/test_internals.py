"""Whatever calsweep leans on in MLflow that its documentation does not promise is still there."""

import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import mlflow
import pytest
from mlflow import MlflowClient, environment_variables
from mlflow.entities import Run
from sqlalchemy import make_url

from sweeps.tracking import internals
from tests.harness.tracked import client_of, make_mirror, make_records, make_sweep, runs_of

TRACKING = Path(internals.__file__).parent


@pytest.mark.parametrize("name", sorted(set(internals.ENVIRONMENT) - {"GIT_PYTHON_REFRESH"}))
def test_mlflow_knows_the_variable(name: str) -> None:
    assert getattr(environment_variables, name).name == name


def test_mlflows_pages_know_views_and_kinds() -> None:
    folder = Path(mlflow.__file__).parent / "server" / "js" / "build" / "static" / "js"
    (main,) = (path.read_text(errors="replace") for path in folder.glob("main.*.js"))
    for word in (internals.view_tag(""), "viewStateShareKey", *internals.EXPERIMENT_KIND):
        assert f'"{word}"' in main
    pages = [main, *(path.read_text(errors="replace") for path in folder.glob("*.chunk.js"))]
    for word in ("custom_model_development", "machine_learning", "workflowType"):
        assert any(re.search(rf"\b{word}\b", page) for page in pages)
    view = {**internals.table_view({"a": 1}, "a"), **internals.chart_view([], "s")}
    for key in view:
        assert any(key in page for page in pages)
    for word in ("PARALLEL", "SCATTER", "LINE", view["runsHiddenMode"]):
        assert f'"{word}"' in main


@pytest.mark.parametrize("path", ["/a/mlflow.db", "/a b/c%20d/e?f=g/#h/ü.db"])
def test_sqlalchemy_reads_the_path_that_was_meant(path: str) -> None:
    uri = internals.sqlite_uri(Path(path))
    assert make_url(uri).database == path
    assert internals.sqlite_path(uri) == Path(path)


def test_no_other_module_leans_on_mlflows_internals() -> None:
    known = {"mlflow.parentRunId", "mlflow.source.name", "mlflow.note.content", "mlflow.user"}
    known.add("mlflow.source.git.commit")
    tracking = (
        "",
        "_URI",
        "_USERNAME",
        "_PASSWORD",
        "_TOKEN",
        "_INSECURE_TLS",
        "_SERVER_CERT_PATH",
    )
    documented = {f"MLFLOW_TRACKING{name}" for name in tracking} | {"MLFLOW_BACKEND_STORE_URI"}
    for path in TRACKING.glob("*.py"):
        if path.name == "internals.py":
            continue
        text = path.read_text()
        assert not re.search(
            r"from mlflow\.(?!entities|exceptions|models|types)|\bmlflow\.\w*\._", text
        ), path
        assert set(re.findall(r"\"(mlflow\.(?!db)[\w.]+)\"", text)) <= known, path
        assert set(re.findall(r"\bMLFLOW_[A-Z_]*[A-Z]\b", text)) <= documented, path


def test_many_runs_at_once_are_what_the_client_writes(fresh: Path) -> None:
    records = make_records()
    records[2].history[1] = {**records[2].history[1], "val_ece": math.nan, "val_nll": math.inf}
    begun = [
        replace(record, state="running", ended=None, history=record.history[: record.number % 3])
        for record in records
    ]
    found = []
    for name, together in (("alone", False), ("together", True)):
        mirror = make_mirror(fresh, make_sweep(name), records)
        for some in (begun, records, records):
            if together:
                mirror.show_together(some)
                assert mirror._shown.keys() == {record.number for record in some}
            for record in some:
                mirror.show(record)
        runs = runs_of(fresh, name)
        del runs[""]
        found.append([facts_of(client_of(fresh), runs[number]) for number in sorted(runs)])
    assert len(found[0]) == len(records)
    assert found[0] == found[1]


def facts_of(client: MlflowClient, run: Run) -> dict[str, Any]:
    """All that MLflow knows of a run, but for what tells it from that of another sweep."""
    info, data = run.info, run.data
    own = {"mlflow.parentRunId", "calsweep.sweep", "calsweep.sweep_id"}
    assert own < data.tags.keys()
    return {
        "info": (info.run_name, info.status, info.start_time, info.end_time, info.user_id),
        "stage": (info.lifecycle_stage, info.experiment_id),
        "artifacts": info.artifact_uri.replace(info.run_id, "run"),
        "tags": {name: value for name, value in data.tags.items() if name not in own},
        "params": data.params,
        "metrics": str(sorted(data.metrics.items())),
        "histories": str(  # NaN equals itself in words
            [
                sorted((m.step, m.timestamp, m.value) for m in history)
                for history in (client.get_metric_history(info.run_id, n) for n in data.metrics)
            ]
        ),
    }
