#!/usr/bin/env bash
# MLflow 3.17.2, SQLite store: a run that ended and is set to RUNNING again by
# MlflowClient.update_run keeps its end time, so it is RUNNING and has ended. A run that never
# ended has no end time.
#
# Seen: reopened: RUNNING, has an end time: True; new: RUNNING, has an end time: False
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
uv venv -q "$folder/venv"
uv pip install -q --python "$folder/venv" mlflow==3.17.2
cd "$folder"
"$folder/venv/bin/python" -W ignore - 2>/dev/null <<'PYTHON'
from mlflow import MlflowClient

client = MlflowClient("sqlite:///mlflow.db")
experiment = client.create_experiment("runs")
reopened, new = (client.create_run(experiment).info.run_id for _ in range(2))
client.set_terminated(reopened, "KILLED")
client.update_run(reopened, status="RUNNING")
found = [client.get_run(each).info for each in (reopened, new)]
words = [f"{each.status}, has an end time: {each.end_time is not None}" for each in found]
print(f"reopened: {words[0]}; new: {words[1]}")
assert words == ["RUNNING, has an end time: True", "RUNNING, has an end time: False"]
PYTHON
