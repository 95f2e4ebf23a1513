"""A sweep stored on S3 and tracked by an MLflow server with PostgreSQL, whose driver is killed."""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import boto3
import psutil
import pytest

from sweeps.search.record import TrialRecord
from sweeps.store.sweep_store import SweepStore
from tests.builders import is_kept
from tests.harness import command
from tests.harness.ray_cluster import free_port
from tests.harness.scene import MlflowServer

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

STORAGE = "s3://sweeps/calsweep"
EPOCHS = 4
SWEEP = f"""
name: far
dataset: {{name: digits, train_samples: 400}}
model: {{name: small_cnn, width: 8}}
losses: [focal]
training: {{epochs: {EPOCHS}, batch_size: 64, lr: 0.05}}
search: {{trials: 3}}
scheduler: {{name: none}}
selection: {{finalists: 0}}
scaling: {{max_concurrent: 1}}
"""


@pytest.fixture(scope="module")
def s3() -> Iterator[None]:
    """An S3-compatible server with a bucket, to which the environment leads."""
    port = free_port()
    environment = {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_ACCESS_KEY_ID": "anybody",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    server = subprocess.Popen(
        [str(Path(sys.executable).with_name("moto_server")), "-H", "127.0.0.1", "-p", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        _wait_for(port)
        boto3.client("s3").create_bucket(Bucket="sweeps")
        yield
    server.kill()
    server.wait()


@pytest.fixture(scope="module")
def postgresql() -> Iterator[str]:
    """A PostgreSQL server; the SQLAlchemy URI of an empty database."""
    programs = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if not programs:
        pytest.skip("there is no PostgreSQL: apt-get install postgresql")
    folder = tempfile.mkdtemp(prefix="calsweep-postgresql-")
    become: list[str] = []
    if os.geteuid() == 0:  # PostgreSQL refuses to run as root
        shutil.chown(folder, "postgres")
        become = ["runuser", "-u", "postgres", "--"]

    def run(program: str, *arguments: str) -> None:
        command = [*become, str(programs[-1].with_name(program)), *arguments]
        subprocess.run(command, check=True, cwd=folder, stdout=subprocess.DEVNULL)

    port = free_port()
    data, log = f"{folder}/data", f"{folder}/log"
    run("initdb", "-D", data, "-A", "trust", "-U", "mlflow", "--no-sync")
    options = f"-p {port} -k {folder} -c listen_addresses=127.0.0.1 -c fsync=off"
    run("pg_ctl", "-D", data, "-l", log, "-o", options, "-w", "start")
    try:
        run("createdb", "-h", "127.0.0.1", "-p", str(port), "-U", "mlflow", "mlflow")
        yield f"postgresql+pg8000://mlflow@127.0.0.1:{port}/mlflow"
    finally:
        run("pg_ctl", "-D", data, "-m", "immediate", "stop")
        shutil.rmtree(folder)


@pytest.fixture(scope="module")
def tracking(s3: None, postgresql: str) -> Iterator[str]:
    """The address of an MLflow server on both."""
    server = MlflowServer(postgresql, "s3://sweeps/mlflow")
    yield server.uri
    server.kill()


def _wait_for(port: int) -> None:
    until = time.monotonic() + 60
    while not any(c.laddr.port == port for c in psutil.net_connections() if c.status == "LISTEN"):
        assert time.monotonic() < until, "the server does not listen"
        time.sleep(0.2)


def calsweep(folder: Path, *arguments: str) -> str:
    done = command.calsweep(folder, *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_killed_driver_loses_nothing(
    tracking: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", tracking)
    (tmp_path / "sweep.yaml").write_text(SWEEP)
    store = SweepStore(STORAGE, "far")
    arguments = ("run", "sweep.yaml", "--storage", STORAGE)
    driver = command.start_calsweep(tmp_path, *arguments, output=tmp_path.with_suffix(".txt"))
    until = time.monotonic() + 300
    while not (finished := _finished(store)):
        assert driver.exitcode is None
        assert time.monotonic() < until
        time.sleep(0.5)
    driver.kill()
    driver.join()
    printed = calsweep(tmp_path, "resume", "far", "--debug", "--storage", STORAGE)
    assert f"browse the runs   calsweep ui --storage {STORAGE}\n" in printed
    links = calsweep(tmp_path, "ui", "--storage", STORAGE)
    assert f"{tracking}/#/experiments/" in links

    records = _finished(store)
    assert records.keys() == set(range(3))
    assert all(is_kept(record, records[number]) for number, record in finished.items())
    assert _runs(tracking) == {
        n: (EPOCHS, record.outcome["val_ece"]) for n, record in records.items()
    }
    assert "small_cnn" in calsweep(tmp_path, "best", "--storage", STORAGE)
    assert not store.folder.exists("driver.lease")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["sweep.yaml"]  # the rest is remote


def _finished(store: SweepStore) -> dict[int, TrialRecord]:
    return {r.number: r for r in store.load_records() if r.state == "finished"}


def _runs(uri: str) -> dict[int, tuple[int, float]]:
    """Number of epochs and last ECE of the run of each trial; also reads the artifacts."""
    from mlflow import MlflowClient

    client = MlflowClient(uri)
    ids = [experiment.experiment_id for experiment in client.search_experiments()]
    found = {}
    for run in client.search_runs(ids, "tags.`calsweep.trial` LIKE '%'"):
        with tempfile.TemporaryDirectory() as folder:
            client.download_artifacts(run.info.run_id, "checkpoint.pt", folder)
            assert (Path(folder) / "checkpoint.pt").stat().st_size > 1000
        epochs = len(client.get_metric_history(run.info.run_id, "val_nll"))
        found[int(run.data.tags["calsweep.trial"])] = epochs, run.data.metrics["val_ece"]
    return found


def test_what_is_wrong_is_said(tmp_path: Path, s3: None) -> None:
    (tmp_path / "sweep.yaml").write_text(SWEEP.replace("far", "other"))
    for storage, message in (
        ("s3://nowhere/calsweep", "storage = 's3://nowhere/calsweep' cannot be used"),
        (STORAGE, "tracking.uri is missing: with a remote storage"),
    ):
        done = command.calsweep(tmp_path, "run", "sweep.yaml", "--storage", storage)
        assert (done.returncode, done.stdout) == (2, "")
        assert message in done.stderr
