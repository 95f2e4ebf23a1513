"""System metrics are measured and written to the run of the sweep."""

from pathlib import Path

import psutil
import pytest

from sweeps.tracking.machine import Machine
from sweeps.tracking.writer import MlflowWriter
from tests.harness.tracked import (
    client_of,
    ending_of,
    make_mirror,
    make_records,
    make_sweep,
    runs_of,
)


def test_a_machine_is_measured_by_mlflows_names() -> None:
    machine = Machine()
    machine.sample()
    found = machine.sample()
    total = psutil.virtual_memory().total / 1e6
    assert 0 <= found["cpu_utilization_percentage"] <= 100
    assert 0 < found["system_memory_usage_megabytes"] < total
    assert {"disk_usage_percentage", "network_receive_megabytes"} <= found.keys()


def test_the_sweeps_own_run_has_them(fresh: Path) -> None:
    sweep, records = make_sweep("measured"), make_records()[:2]
    writer = MlflowWriter(make_mirror(fresh, sweep, records))
    for cpus in (10.0, 90.0, 30.0):
        writer.submit_sample({"cpu_utilization_percentage": cpus, "node-2/gpu_0": 1.0})
    for record in records:
        writer.submit(record)
    assert writer.close(60, ending_of(records, sweep)) == 0
    parent = runs_of(fresh, "measured")[""]
    assert parent.data.metrics["system/node-2/gpu_0"] == 1.0
    name = "system/cpu_utilization_percentage"
    history = client_of(fresh).get_metric_history(parent.info.run_id, name)
    assert sorted(each.value for each in history) == [10, 30, 90]
    assert parent.info.status == "FINISHED"


def test_a_run_that_takes_none_stops_nothing(fresh: Path) -> None:
    sweep, records = make_sweep("unmeasured"), make_records()[:2]
    mirror = make_mirror(fresh, sweep, records)
    mirror.sync(records[0])
    parent = runs_of(fresh, "unmeasured")[""].info.run_id
    client_of(fresh).delete_run(parent)
    writer = MlflowWriter(mirror)
    writer.submit_sample({"cpu_utilization_percentage": 10.0})
    writer.submit(records[1])
    assert writer.close(60, ending_of(records, sweep)) == 0
    assert writer.fault == "the sweep's own run was deleted in MLflow"
    assert runs_of(fresh, "unmeasured")["1"].info.status == "FINISHED"


def test_measurements_that_are_not_read_are_dropped(
    fresh: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sweeps.tracking.writer._MOST_SAMPLES", 3)
    writer = MlflowWriter(make_mirror(fresh, make_sweep("away"), []))
    for number in range(9):
        writer.submit_sample({"cpu_utilization_percentage": number})
    assert [values["cpu_utilization_percentage"] for _, values in writer._samples] == [6, 7, 8]
