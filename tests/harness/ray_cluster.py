"""A Ray cluster of several nodes on this machine, each started by ``ray start``."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import psutil

from tests.harness import node_worker
from tests.harness.forks import BIN, FORKS, act_as_started, end_with_tests, listening
from trainables.wrappers.forked_workers import ADDRESS, serve

if TYPE_CHECKING:
    from tests.harness.object_store import ObjectStore

_START_SECONDS = 180
_START_TRIES = 3


def free_port() -> int:
    """An unused port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Node:
    """One node: the process of ``ray start --block`` with all its children.

    Args:
        arguments: For ``ray start``.
        environment: Environment of the node's processes.
        log: File for what ``ray start`` prints.
    """

    def __init__(self, arguments: list[str], environment: dict[str, str], log: Path) -> None:
        self.log = log
        log.touch()
        self.process = FORKS.Process(
            target=_ray_start, args=(arguments, environment, log), daemon=True
        )
        self.process.start()

    def joins(self) -> bool:
        """Wait until the node has joined its cluster; False if ``ray start`` failed."""
        until = time.monotonic() + _START_SECONDS
        while "Ray runtime started" not in self.log.read_text():
            if self.process.exitcode is not None or time.monotonic() > until:
                return False
            time.sleep(0.2)
        return True

    @property
    def id(self) -> str:
        """Ray's id of the node."""
        words = [word for process in self.processes() for word in process.cmdline()]
        return next(w.partition("=")[2] for w in words if w.startswith("--node_id="))

    def processes(self) -> list[psutil.Process]:
        """All processes of the node."""
        with suppress(psutil.NoSuchProcess):
            parent = psutil.Process(self.process.pid)
            return [parent, *parent.children(recursive=True)]
        return []

    def kill(self) -> None:
        """Kill all processes (SIGKILL), like a power failure."""
        doomed = self.processes()
        for process in doomed:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(doomed, timeout=20)
        self.process.join()


class RayCluster:
    """A cluster with a head, and nodes that can be added and removed.

    Args:
        head_cpus: CPUs of the head.
        token: Authentication token; None for a cluster without authentication.
        variables: Environment variables of all nodes.
        of_nodes: The same, of all but the head.
        object_store: One that the variables lead to.
        dashboard: Whether the head has one, which jobs and lists of sweeps need.
    """

    def __init__(
        self,
        head_cpus: int = 0,
        token: str | None = None,
        variables: Mapping[str, str] | None = None,
        of_nodes: Mapping[str, str] | None = None,
        object_store: ObjectStore | None = None,
        dashboard: bool = True,
    ) -> None:
        self.object_store, self.dashboard = object_store, dashboard
        self.port, self.dashboard_port = free_port(), free_port()
        self.temporary = tempfile.mkdtemp(prefix="rc")
        self._logs = 0
        self.environment = {
            **os.environ,
            "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
            "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_agent_register_timeout_ms": "300000",
            "RAY_gcs_server_port_wait_time_s": "120",
            "RAY_DASHBOARD_STARTUP_TIMEOUT_S": "180",
            "OMP_NUM_THREADS": "1",
            "RAY_worker_niceness": "0",  # otherwise trials would have low priority
            "RAY_AUTH_MODE": "token" if token else "disabled",
            **({"RAY_AUTH_TOKEN": token} if token else {}),
            **(variables or {}),
        }
        self.of_nodes = of_nodes or {}
        self.nodes: list[Node] = []
        self.head_cpus = head_cpus
        self.head = self.start_head()

    @property
    def url(self) -> str:
        """URL of the dashboard."""
        return f"http://127.0.0.1:{self.dashboard_port}"

    @property
    def address(self) -> str:
        """Address of the head, for drivers."""
        return f"127.0.0.1:{self.port}"

    def start_head(self) -> Node:
        """Start the head, on the same ports as before, and wait until any dashboard answers."""
        self.head = self._start(
            [
                "--head",
                "--node-ip-address=127.0.0.1",
                f"--port={self.port}",
                f"--num-cpus={self.head_cpus}",
                f"--include-dashboard={str(self.dashboard).lower()}",
                "--dashboard-host=127.0.0.1",
                f"--dashboard-port={self.dashboard_port}",
                f"--ray-client-server-port={free_port()}",
                "--no-monitor",  # of an autoscaler
                f"--temp-dir={self.temporary}",
                "--object-store-memory=200000000",
            ],
            self.environment,
        )
        until = time.monotonic() + _START_SECONDS
        while self.dashboard and not self._answers():
            assert time.monotonic() < until, "the head's dashboard does not answer"
            time.sleep(0.3)
        return self.head

    def add_node(self, cpus: int = 1) -> Node:
        """Add a node."""
        node = self._start(
            [
                f"--address={self.address}",
                "--node-ip-address=127.0.0.1",
                f"--num-cpus={cpus}",
                "--object-store-memory=200000000",
            ],
            {**self.environment, **self.of_nodes},
        )
        self.nodes.append(node)
        return node

    def drain(self, node: Node) -> None:
        """Drain a node, as the autoscaler does for a spot instance."""
        from ray._raylet import GcsClient
        from ray.core.generated.autoscaler_pb2 import DrainNodeReason

        reason = DrainNodeReason.Value("DRAIN_NODE_REASON_PREEMPTION")
        deadline = int(1000 * (time.time() + 600))
        accepted, why = GcsClient(address=self.address).drain_node(
            node.id, reason, "the spot machine is taken away", deadline
        )
        assert accepted, why

    def run(self, program: str) -> str:
        """Run a Python program beside the cluster, with its address as argument; what it prints."""
        done = subprocess.run(
            [sys.executable, "-c", program, self.address],
            capture_output=True,
            text=True,
            env=self.environment,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def stop(self) -> None:
        """Kill all nodes."""
        for node in [*self.nodes, self.head]:
            node.kill()

    def _start(self, arguments: list[str], environment: dict[str, str]) -> Node:
        # Ray gives a node 30 s to answer, which may be too short on a busy machine.
        for _ in range(_START_TRIES):
            self._logs += 1
            log = Path(self.temporary) / f"ray_start_{self._logs}.log"
            # Nothing reads the workers' output that Ray's log monitors would send to the driver.
            node = Node([*arguments, "--include-log-monitor=false"], environment, log)
            if node.joins():
                return node
            node.kill()
        of_ray = sorted(Path(self.temporary).glob("session_latest/logs/*.err"))
        raise RuntimeError("\n".join(f"{path}:\n{path.read_text()}" for path in [log, *of_ray]))

    def _answers(self) -> bool:
        # A head that requires a token answers 401, which suffices here.
        try:
            urllib.request.urlopen(f"{self.url}/api/version", timeout=2).close()
        except urllib.error.HTTPError as error:
            return error.code in (401, 403)
        except OSError:
            return False
        return True


def _ray_start(arguments: list[str], environment: dict[str, str], log: Path) -> None:
    """The code of a node's process: the command ``ray start``."""
    os.setsid()
    act_as_started(environment, [Path(os.devnull), log, log])
    os.environ[ADDRESS] = _worker_server(log.with_suffix(".workers"))
    end_with_tests()
    from ray.scripts.scripts import main

    from sweeps.cluster.ray_internals import agents_may_be_slow, workers_forked

    has_dashboard = "--include-dashboard=true" in arguments
    only_what_is_used = _small_dashboard() if has_dashboard else for_trials_only()
    sys.argv = ["ray", "start", "--block", *arguments]
    with (
        agents_may_be_slow(),
        only_what_is_used,
        workers_forked(node_worker.__file__),
        mock.patch("ray._private.node.Node.start_ray_client_server"),
    ):
        main()


def _worker_server(folder: Path) -> str:
    """Fork a process from which the workers are forked; the path of its socket."""
    listener, address = listening(folder)
    ends_with_this, stays_open = os.pipe()
    if os.fork() == 0:
        os.close(stays_open)
        os.dup2(ends_with_this, 0)
        for name in [name for name in sys.modules if name.startswith(("sweeps", "trainables"))]:
            del sys.modules[name]  # a job has its own
        serve(listener, modules=())
        os._exit(0)
    return address


def _small_dashboard() -> AbstractContextManager[Any]:
    """Context: Ray's dashboard serves only jobs and lists of what runs."""
    from ray._private import services

    start = services.start_ray_process

    def start_with_less(command: list[str], *arguments: Any, **options: Any) -> Any:
        is_dashboard = any(part.endswith("/dashboard.py") for part in command)
        modules = ["--modules-to-load=JobHead,NodeHead,StateHead"] if is_dashboard else []
        return start([*command, *modules], *arguments, **options)

    return mock.patch.object(services, "start_ray_process", start_with_less)


@contextmanager
def for_trials_only() -> Iterator[None]:
    """Context: Ray, started in it, runs only what trials need: no dashboard, monitor or agent.

    The agent is replaced by one that waits for the end of its raylet, which would end with it.
    """
    from ray._private import services
    from ray._private.node import Node

    start = services.start_ray_process
    agent = "--dashboard_agent_command="
    waits = f"{agent}sh -c 'trap : INT HUP; while kill -0 $PPID; do sleep 1; done'"

    def start_without_agent(command: list[str], *arguments: Any, **options: Any) -> Any:
        given = [waits if part.startswith(agent) else part for part in command]
        return start(given, *arguments, **options)

    with (
        mock.patch.object(Node, "start_monitor"),
        mock.patch.object(Node, "start_log_monitor"),
        mock.patch.object(Node, "start_api_server"),
        mock.patch.object(services, "start_ray_process", start_without_agent),
        # Otherwise the driver imports what the dashboard needs.
        mock.patch("ray._private.utils.get_dashboard_dependency_error", return_value=ImportError()),
    ):
        yield
