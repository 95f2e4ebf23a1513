"""System metrics of all machines of a cluster are measured while trials run."""

import os
import socket
from pathlib import Path

import pytest

from sweeps.service.running import run_sweep
from sweeps.terminal.console import plain_console
from tests.builders import make_sweep
from tests.harness.ray_cluster import RayCluster
from tests.harness.tracked import client_of, runs_of

TWO_NODES = """
import json, sys, time
from sweeps.cluster.connection import connected
from sweeps.cluster.machines import watched

found = []
with connected(sys.argv[1]), watched(found.append, seconds=0.5):
    until = time.monotonic() + 60
    while time.monotonic() < until and not any("/" in name for each in found for name in each):
        time.sleep(0.2)
print(json.dumps(sorted(found[-1])))
"""


@pytest.mark.slow
def test_every_node_is_measured() -> None:
    cluster = RayCluster(head_cpus=1)
    try:
        cluster.add_node()
        printed = cluster.run(TWO_NODES)
    finally:
        cluster.stop()
    assert '"cpu_utilization_percentage"' in printed
    assert f'"{socket.gethostname()}/cpu_utilization_percentage"' in printed


@pytest.mark.slow
def test_a_sweep_has_system_metrics_if_asked(tmp_path: Path) -> None:
    sweep = make_sweep(
        "measured",
        dataset={"name": "digits", "train_samples": 200},
        losses=["focal"],
        training={"epochs": 1},
        search={"trials": 1},
        selection={"seeds": 0},
        tracking={"system_metrics": True},
    )
    with open(os.devnull, "w") as nothing:
        run_sweep(sweep, str(tmp_path), console=plain_console(file=nothing))
    parent = runs_of(tmp_path, "measured")[""]
    name = "system/cpu_utilization_percentage"
    for each in client_of(tmp_path).get_metric_history(parent.info.run_id, name):
        assert 0 <= each.value <= 100
    assert name in parent.data.metrics
    assert "system/disk_usage_percentage" in parent.data.metrics
