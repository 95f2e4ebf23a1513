"""Starts or joins Ray quietly, and counts how many trials fit."""

from __future__ import annotations

import logging
import os
import socket
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from sweeps.cluster.ray_internals import LOCAL_SETTINGS, agents_may_be_slow, nodes_to_come
from sweeps.cluster.versions import driver_mismatch
from sweeps.errors import SweepFailedError, UserError, first_line
from sweeps.messages.reporter import LOG, Reporter
from sweeps.sweep_file.schema import ScalingSection

_START_TRIES = 3
API_SERVER: Final = "RAY_API_SERVER_ADDRESS"  # an environment variable


@contextmanager
def connected(address: str | None, reporter: Reporter = LOG) -> Iterator[None]:
    """Start Ray on this machine, or join the cluster at an address; leave it at the end.

    An existing Ray session of the process is used and stays open.

    Raises:
        UserError: No cluster answers at the address.
        SweepFailedError: Ray does not start on this machine.
    """
    for name, value in LOCAL_SETTINGS.items():
        os.environ.setdefault(name, value)
    import ray

    if ray.is_initialized():
        yield
        return
    try:
        if address is None:
            _start(reporter)
        else:
            _join(address)
        yield
    finally:
        ray.shutdown()


def _start(reporter: Reporter) -> None:
    """Start Ray on this machine; try again if a busy machine delays the start too much."""
    import ray

    for left in reversed(range(_START_TRIES)):
        try:
            with agents_may_be_slow():
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

    _check_answers(address)
    try:
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except (ConnectionError, ValueError, RuntimeError) as error:
        if (differs := driver_mismatch(str(error))) is not None:
            raise UserError(f"--address = {address!r}: {differs}") from None
        raise _no_cluster(address, error) from None


def _check_answers(address: str) -> None:
    """Check quickly that a cluster answers at host:port; Ray itself would try for minutes."""
    host, separator, port = address.rpartition(":")
    if not separator or "/" in address or not port.isdigit():
        return
    try:
        socket.create_connection((host, int(port)), timeout=5).close()
    except (OSError, OverflowError) as error:
        raise _no_cluster(address, error) from None


def _no_cluster(address: str, error: Exception) -> UserError:
    return UserError(
        f"--address = {address!r}: no Ray cluster answers there ({first_line(error)}); allowed: "
        "the host:port that `ray start --head` printed, or 'auto'"
    )


def check_room(scaling: ScalingSection, address: str | None) -> None:
    """Check that a trial fits, now or once the autoscaler has added nodes; UserError if not."""
    where = f"the cluster at {address}" if address else "this machine"
    nodes = all_nodes()
    room = worker_room(scaling, nodes)
    if room < scaling.num_workers:
        raise UserError(
            f"scaling: one trial wants num_workers = {scaling.num_workers} × ("
            f"cpus_per_worker = {scaling.cpus_per_worker}, gpus_per_worker = "
            f"{scaling.gpus:g}); {where} has room for {room} such workers"
            f" ({_sizes(nodes)})"
        )


def worker_room(scaling: ScalingSection, nodes: Iterable[Mapping[str, float]]) -> int:
    """Number of workers of one trial that fit into nodes with these resources."""
    return sum(_fitting(scaling, node) for node in nodes)


def _fitting(scaling: ScalingSection, node: Mapping[str, float]) -> int:
    by_cpus = int(node.get("CPU", 0.0) // scaling.cpus_per_worker)
    each, gpus = scaling.gpus, node.get("GPU", 0.0)
    if each == 0:
        return by_cpus
    by_gpus = int(gpus // each) if each >= 1 else int(gpus) * int(1 / each)
    return min(by_cpus, by_gpus)


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


def _sizes(nodes: list[dict[str, float]]) -> str:
    sizes = Counter((node.get("CPU", 0.0), node.get("GPU", 0.0)) for node in nodes)
    return ", ".join(
        f"{count} {'node' if count == 1 else 'nodes'} of {cpus:g} CPUs and {gpus:g} GPUs"
        for (cpus, gpus), count in sizes.items()
    )


@contextmanager
def asking(address: str) -> Iterator[None]:
    """Point Ray's clients to a cluster, by the variable that overrides their address argument."""
    before = os.environ.get(API_SERVER)
    os.environ[API_SERVER] = address
    try:
        yield
    finally:
        if before is None:
            del os.environ[API_SERVER]
        else:
            os.environ[API_SERVER] = before
