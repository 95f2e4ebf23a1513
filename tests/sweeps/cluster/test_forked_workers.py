"""Workers of Ray that are forked from a process that has imported what trials need."""

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import numpy as np
import psutil
import pytest
import ray

from sweeps.cluster import ray_internals
from sweeps.cluster.connection import connected
from sweeps.cluster.worker_server import worker_server
from trainables.wrappers.forked_workers import ADDRESS

pytestmark = [pytest.mark.slow, pytest.mark.any_version, pytest.mark.usefixtures("without_ray")]

STARTS_A_SERVER = """
import time
from sweeps.cluster.worker_server import worker_server
print(worker_server(), flush=True)
time.sleep(100)
"""


class Seen(NamedTuple):
    """What a worker reports of itself."""

    pid: int
    group: int
    parent: list[str]
    folder: str
    variables: tuple[str | None, ...]
    drawn: int


@ray.remote(num_cpus=1, runtime_env={"env_vars": {"OWN": "${HOME}/own"}})
class Worker:
    """Uses the same kind of environment as Tune's actors."""

    def see(self) -> Seen:
        return Seen(
            os.getpid(),
            os.getpgrp(),
            psutil.Process().parent().cmdline(),
            os.getcwd(),
            tuple(map(os.environ.get, ("OWN", "OMP_NUM_THREADS"))),
            int(np.random.randint(2**31)),  # noqa: NPY002
        )


def two_workers() -> list[Seen]:
    with connected(None):
        workers = [Worker.remote() for _ in range(2)]
        return list(ray.get([worker.see.remote() for worker in workers]))


def test_workers_are_forked_and_see_what_ray_gives_them() -> None:
    first, second = two_workers()
    for worker in first, second:
        assert worker.group == worker.pid, "Ray ends the group of a worker"
        assert any("forked_workers" in part for part in worker.parent)
        assert worker.folder == os.getcwd()
        assert worker.variables == (f"{os.environ['HOME']}/own", os.environ["OMP_NUM_THREADS"])
    assert first.drawn != second.drawn
    assert not psutil.pid_exists(first.pid)


def test_ray_starts_workers_itself_without_a_server(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(ADDRESS, str(tmp_path / "absent"))
    for worker in two_workers():
        assert any("raylet" in part for part in worker.parent)
        assert worker.variables[0] == f"{os.environ['HOME']}/own"


def test_without_a_folder_for_its_socket_there_is_no_server(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    long = tmp_path / ("x" * 120)  # the path of a socket has at most 107 bytes
    long.mkdir()
    monkeypatch.delenv(ADDRESS, raising=False)
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    monkeypatch.setattr(ray_internals, "worker_server", worker_server.__wrapped__)
    with ray_internals.workers_forked():
        assert ADDRESS not in os.environ
    assert not list(long.iterdir())


def test_the_server_ends_with_its_driver() -> None:
    command = [sys.executable, "-c", STARTS_A_SERVER]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as driver:
        assert driver.stdout is not None
        folder = Path(driver.stdout.readline().strip()).parent
        servers = psutil.Process(driver.pid).children()
        assert len(servers) == 1
        os.kill(driver.pid, signal.SIGKILL)
    assert not psutil.wait_procs(servers, timeout=60)[1]
    assert not folder.exists()
