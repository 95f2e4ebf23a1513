"""Starts or joins Ray quietly, and counts how many trials may run."""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from sweeps.cluster.ray_internals import (
    LOCAL_SETTINGS,
    agents_may_be_slow,
    check_token,
    nodes_to_come,
    workers_forked,
)
from sweeps.cluster.versions import driver_mismatch
from sweeps.cluster.worker_server import blocked
from sweeps.errors import SweepFailedError, UserError, first_line
from sweeps.messages.reporter import LOG, Reporter
from sweeps.planning.gpu_share import worker_room
from sweeps.sweep_file.sections.resources import ScalingSection

_START_TRIES = 3
_SECONDS_BETWEEN_LOOKS = 2.0
_FREE_FOR_MORE = 0.9  # of the object store
_KEPT: dict[str, tuple[dict[str, str], list[str], str]] = {}
"""By node: the surroundings of Ray that stays for the next sweep of this process."""


def connected(
    address: str | None, reporter: Reporter = LOG, *, stays: bool = False
) -> AbstractContextManager[None]:
    """Context: Ray runs on this machine, or the cluster at an address is joined; left at the end.

    An existing Ray session of the process is used and stays open. The call imports Ray; on entering
    the context its processes start.

    Args:
        address: ``host:port`` or ``auto``; None starts Ray on this machine.
        reporter: Hears of further tries to start Ray.
        stays: Whether Ray on this machine runs on after a success in the main thread, for the next
            sweep.

    Raises:
        UserError: No cluster answers at the address.
        SweepFailedError: Ray does not start on this machine.
    """
    for name, value in LOCAL_SETTINGS.items():
        os.environ.setdefault(name, value)
    import ray  # noqa: F401

    return _connected(address, reporter, stays=stays)


@contextmanager
def _connected(address: str | None, reporter: Reporter, *, stays: bool) -> Iterator[None]:
    import ray

    kept = ray.is_initialized() and _node() in _KEPT
    if kept and (address is not None or _KEPT[_node()] != _surroundings()):
        ray.shutdown()
        kept = False
    if ray.is_initialized() and not kept:
        yield
        return
    runs_on = False
    try:
        if address is not None:
            _join(address)
        elif not kept:
            _start(reporter)
        yield
        # Linux ends Ray's processes with the thread that has started them.
        lasting = threading.current_thread() is threading.main_thread()
        runs_on = stays and address is None and lasting and _store_has_room()
        if runs_on:
            _KEPT[_node()] = _surroundings()
    finally:
        if not runs_on:
            ray.shutdown()


def _node() -> str:
    import ray

    return str(ray.get_runtime_context().get_node_id())


def _surroundings() -> tuple[dict[str, str], list[str], str]:
    """What Ray passes on to trials when it starts: variables, ``sys.path`` and working folder."""
    return dict(os.environ), list(sys.path), os.getcwd()


def _store_has_room() -> bool:
    """Whether the object store can take the data of more sweeps; it keeps those of earlier ones."""
    import ray

    name = "object_store_memory"
    free, size = ray.available_resources().get(name, 0.0), ray.cluster_resources().get(name, 0.0)
    return bool(free > _FREE_FOR_MORE * size)


def _start(reporter: Reporter) -> None:
    """Start Ray on this machine; try again if a busy machine delays the start too much."""
    import ray

    for left in reversed(range(_START_TRIES)):
        try:
            # A closed terminal is for the driver alone, which ends the sweep cleanly; Ray itself
            # does the same with Ctrl-C.
            hangup_blocked = blocked(signal.SIGHUP)
            with hangup_blocked, workers_forked(), agents_may_be_slow():
                ray.init(
                    address="local",
                    include_dashboard=False,
                    log_to_driver=False,
                    logging_level=logging.ERROR,
                )
            return
        except Exception as error:  # Ray raises this error itself
            ray.shutdown()
            reason = first_line(error)
            if left == 0:
                raise SweepFailedError(
                    f"Ray did not start on this machine, in {_START_TRIES} tries ({reason}). The "
                    "sweep is unchanged: try again when the machine is less busy, or free some "
                    "memory; Ray's own logs are in /tmp/ray/session_latest/logs"
                ) from None
            reporter.stage(f"Ray did not start ({reason}), trying again")


def _join(address: str) -> None:
    import ray

    try:
        if _check_answers(address):
            check_token(address)
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except ray.exceptions.AuthenticationError:
        raise UserError(
            "the cluster asks for a token, and yours is missing or wrong; set "
            "RAY_AUTH_MODE=token and the token in RAY_AUTH_TOKEN, in the file that "
            "RAY_AUTH_TOKEN_PATH names, or in ~/.ray/auth_token",
            "address",
            address,
        ) from None
    except (ConnectionError, ValueError, RuntimeError) as error:
        if (differs := driver_mismatch(str(error))) is not None:
            raise UserError(differs, "address", address) from None
        raise _no_cluster(address, error) from None


def _check_answers(address: str) -> bool:
    """Check quickly that a server answers at host:port; Ray itself would try for minutes.

    Returns whether the address is a host:port.
    """
    host, separator, port = address.rpartition(":")
    if not separator or "/" in address or not port.isdigit():
        return False
    try:
        socket.create_connection((host, int(port)), timeout=5).close()
    except (OSError, OverflowError) as error:
        raise _no_cluster(address, error) from None
    return True


def _no_cluster(address: str, error: Exception) -> UserError:
    return UserError(
        f"no Ray cluster answers there ({first_line(error)}); allowed: the host:port that `ray "
        "start --head` printed, or 'auto'",
        "address",
        address,
    )


def concurrent_trials(scaling: ScalingSection) -> int:
    """Number of trials that may run concurrently, with the nodes that the autoscaler may add."""
    room = max(worker_room(scaling, nodes) for nodes in (_nodes(), nodes_to_come()))
    return max(1, min(room // scaling.num_workers, scaling.max_concurrent or room))


def all_nodes() -> list[dict[str, float]]:
    """Resources of each living node, and of each node that the autoscaler may start."""
    return [*_nodes(), *nodes_to_come()]


def _nodes() -> list[dict[str, float]]:
    """Resources of each living node that does not drain."""
    import ray

    from trainables.wrappers.ray_internals import draining_nodes

    leaving = draining_nodes()
    return [
        node["Resources"] for node in ray.nodes() if node["Alive"] and node["NodeID"] not in leaving
    ]


class LostNodes:
    """Calls return the names of nodes that have died since the creation or the previous call.

    Ray counts a node as dead some seconds after its trials were lost. So calls may be frequent;
    they ask the cluster every few seconds.
    """

    def __init__(self) -> None:
        self._known = set(self._dead())
        self._next_look = 0.0

    def __call__(self) -> list[str]:
        if time.monotonic() < self._next_look:
            return []
        self._next_look = time.monotonic() + _SECONDS_BETWEEN_LOOKS
        dead = self._dead()
        names = [name for node, name in dead.items() if node not in self._known]
        self._known.update(dead)
        return names

    def _dead(self) -> dict[str, str]:
        import ray

        return {
            node["NodeID"]: node["NodeManagerHostname"] for node in ray.nodes() if not node["Alive"]
        }
