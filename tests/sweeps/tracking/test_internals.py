"""Whatever calsweep leans on in MLflow that its documentation does not promise is still there."""

import re
from pathlib import Path

import mlflow
import pytest
from mlflow import environment_variables
from sqlalchemy import make_url

from sweeps.tracking import internals

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
