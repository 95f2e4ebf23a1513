#!/usr/bin/env bash
# mlflow 3.17.2: the first MlflowClient.log_artifacts() of a run reads that whole run, with all its
# metrics, parameters and tags, to find where its files belong, although the same client has made
# the run and got the place. The repository of that place (get_artifact_repository) reads none.
#
# Seen with Python 3.11, SQLite, and a run with 300 metrics:
#   log_artifacts() of the client: 300 metrics read, second call 0
#   log_artifacts() of the repository: 0 metrics read
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
uv venv -q "$folder/environment"
uv pip install -q --python "$folder/environment" mlflow==3.17.2
cd "$folder"
"$folder/environment/bin/python" - <<'PYTHON' 2>/dev/null
from pathlib import Path

from mlflow import MlflowClient
from mlflow.entities import Metric
from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository
from sqlalchemy import event
from sqlalchemy.orm import Mapper

read = []


@event.listens_for(Mapper, "load")
def count(row, context):
    if type(row).__name__ == "SqlLatestMetric":
        read.append(row)


def counted(action):
    read.clear()
    action()
    return len(read)


client = MlflowClient("sqlite:///runs.db")
experiment = client.create_experiment("finding", artifact_location=str(Path("files").resolve()))
Path("report").mkdir()
Path("report/page.html").write_text("a page")


def new_run():
    run = client.create_run(experiment)
    metrics = [Metric(f"metric_{number}", 0.5, 0, 0) for number in range(300)]
    client.log_batch(run.info.run_id, metrics)
    return run.info


one, other = new_run(), new_run()
first = counted(lambda: client.log_artifacts(one.run_id, "report"))
second = counted(lambda: client.log_artifacts(one.run_id, "report"))
direct = counted(lambda: get_artifact_repository(other.artifact_uri).log_artifacts("report"))
for run in one, other:
    assert [each.path for each in client.list_artifacts(run.run_id)] == ["page.html"]
print(f"log_artifacts() of the client: {first} metrics read, second call {second}")
print(f"log_artifacts() of the repository: {direct} metrics read")
assert (first, second, direct) == (300, 0, 0)
PYTHON
