"""A job that is killed with its cluster and recreated, as by Kubernetes, loses nothing."""

import shutil
import time
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest

from sweeps.store.sweep_store import SweepStore
from tests.builders import facts
from tests.harness.command import exit_code, start_calsweep
from tests.harness.ray_cluster import RayCluster

SWEEP = """
name: recreated
dataset: {name: digits, train_samples: 400}
model: {name: small_cnn, width: 8}
losses: [focal]
training: {epochs: 6, batch_size: 64}
search: {trials: 5, sampler: tpe}
scheduler: {name: none}
selection: {finalists: 0}
scaling: {max_concurrent: 1}
"""


def start(folder: Path, cluster: RayCluster) -> BaseProcess:
    """The entry point of deploy/rayjob.yaml."""
    place = ("--address", cluster.address, "--storage", str(folder / "store"))
    arguments = ("run", "sweep.yaml", "--or-resume", *place)
    return start_calsweep(folder, *arguments, output=folder / "said.txt")


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_recreated_job_resumes_on_a_fresh_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    (tmp_path / "sweep.yaml").write_text(SWEEP)
    store = SweepStore(str(tmp_path / "store"), "recreated")
    cluster = RayCluster(head_cpus=2)
    try:
        driver = start(tmp_path, cluster)
        until = time.monotonic() + 400
        while not (before := [r for r in store.load_records() if r.state == "finished"]):
            assert driver.exitcode is None, (tmp_path / "said.txt").read_text()
            assert time.monotonic() < until
            time.sleep(0.2)
        driver.terminate()  # then the cluster is removed, like when the pods of a job are deleted
        assert exit_code(driver, 120) == 130, (tmp_path / "said.txt").read_text()
    finally:
        cluster.stop()
        shutil.rmtree(cluster.temporary, ignore_errors=True)
    assert "`calsweep resume recreated" in (tmp_path / "said.txt").read_text()
    assert len(before) < 5
    cluster = RayCluster(head_cpus=2)
    try:
        for _ in range(2):  # the second time, everything exists
            driver = start(tmp_path, cluster)
            assert exit_code(driver, 400) == 0, (tmp_path / "said.txt").read_text()
            after = {record.number: record for record in store.load_records()}
            assert [record.state for record in after.values()] == ["finished"] * 5
            assert all(facts(after[record.number]) == facts(record) for record in before)
            assert all(after[record.number].ended == record.ended for record in before)
    finally:
        cluster.stop()
        shutil.rmtree(cluster.temporary, ignore_errors=True)
    assert store.load_answer() is not None
