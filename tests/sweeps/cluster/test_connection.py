"""Starting Ray on a busy machine."""

import os
import threading
from pathlib import Path
from typing import Any

import psutil
import pytest
import ray

from sweeps.cluster.connection import connected
from sweeps.errors import SweepFailedError
from tests.builders import Noted

pytestmark = pytest.mark.usefixtures("without_ray")

# Runs at every start of Python: Ray's agents take longer than a raylet waits.
SLOW_AGENTS = """
import sys, time
if any(part.endswith("agent.py") or "runtime_env/agent" in part for part in sys.orig_argv):
    time.sleep(20)
"""


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_ray_starts_though_its_agents_are_slow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sitecustomize.py").write_text(SLOW_AGENTS)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    waits: list[str] = []

    @ray.remote
    def priority() -> int:
        return os.nice(0)

    with connected(None, Noted(waits)):
        assert ray.get(priority.remote()) == os.nice(0)  # that of workers is not lower
    assert waits == []


@pytest.mark.slow
def test_ray_stays_for_the_next_sweep_in_the_same_surroundings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    @ray.remote
    def own() -> str | None:
        return os.environ.get("OWN")

    with connected(None, stays=True):
        first = ray.get_runtime_context().get_node_id()
    with connected(None, stays=True):
        assert ray.get_runtime_context().get_node_id() == first
    monkeypatch.setenv("OWN", "1")
    with pytest.raises(InterruptedError), connected(None, stays=True):
        assert ray.get(own.remote()) == "1"
        raise InterruptedError
    assert not ray.is_initialized()


@pytest.mark.slow
def test_ray_does_not_stay_if_its_thread_may_end() -> None:
    def run() -> None:
        with connected(None, stays=True):
            nodes.append(ray.get_runtime_context().get_node_id())

    nodes: list[str] = []
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert nodes
    assert not ray.is_initialized()


class Refusing:
    """Replaces ``ray.init``; fails a number of times."""

    def __init__(self, times: int) -> None:
        self.times = times
        self.calls = 0

    def __call__(self, **_: Any) -> None:
        self.calls += 1
        if self.calls <= self.times:
            raise Exception("The current node timed out during startup.\nmore")


def test_starting_ray_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    init = Refusing(2)
    monkeypatch.setattr(ray, "init", init)
    waits: list[str] = []
    with connected(None, Noted(waits)):
        assert init.calls == 3
    again = "Ray did not start (The current node timed out during startup.), trying again"
    assert waits == [again, again]


def test_when_ray_does_not_start_one_message_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    init = Refusing(99)
    monkeypatch.setattr(ray, "init", init)
    with (
        pytest.raises(SweepFailedError, match=r"in 3 tries .*unchanged: try again"),
        connected(None),
    ):
        pass
    assert init.calls == 3


def test_a_start_that_failed_leaves_no_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    before = psutil.Process(os.getpid()).children(recursive=True)
    monkeypatch.setattr("ray._private.services.start_raylet", fails)
    monkeypatch.setattr("sweeps.cluster.connection._START_TRIES", 1)
    with pytest.raises(SweepFailedError, match="no raylet today"), connected(None):
        pass
    now = psutil.Process(os.getpid()).children(recursive=True)
    _, alive = psutil.wait_procs([each for each in now if each not in before], timeout=20)
    assert not [each for each in alive if "gcs_server" in each.name()]


def fails(*_: Any, **__: Any) -> None:
    raise RuntimeError("no raylet today")
