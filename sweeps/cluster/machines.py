"""Measures the load of the cluster's machines while trials run, without the trials' processes."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from sweeps.cluster.ray_internals import nodes_to_come
from sweeps.errors import first_line
from sweeps.messages.reporter import LOG, Reporter
from sweeps.tracking.machine import Machine

logger = logging.getLogger("calsweep")

_SECONDS = 10.0  # between two samples, as in MLflow
_PATIENCE_SECONDS = 3.0  # for other machines to answer


@contextmanager
def watched(
    on_sample: Callable[[dict[str, float]], object],
    reporter: Reporter = LOG,
    seconds: float = _SECONDS,
) -> Iterator[None]:
    """Context: the machines of the connected cluster are measured every so many seconds.

    `on_sample` gets the measurements: ``cpu_utilization_percentage`` and so on for the driver's
    machine, ``<name>/cpu_utilization_percentage`` for another machine.
    """
    over = threading.Event()

    def watch() -> None:
        try:
            machines = _Machines()
            machines.sample()
            while not over.is_set():
                over.wait(seconds)
                on_sample(machines.sample())
        except Exception as error:  # of psutil, a driver or Ray: the sweep continues
            logger.warning("system metrics are no longer measured", exc_info=True)
            reporter.notice(f"system metrics are no longer measured: {first_line(error)}")

    thread = threading.Thread(target=watch, name="machines", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(2 * _PATIENCE_SECONDS)


class _Machines:
    """The driver's machine, and one actor on each other node; actors use no resources of trials."""

    def __init__(self) -> None:
        self._own = Machine()
        self._own_node = ray.get_runtime_context().get_node_id()
        self._others: dict[str, Any] = {}

    def sample(self) -> dict[str, float]:
        found = self._own.sample()
        asked = {actor.sample.remote(): name for name, actor in self._actors()}
        if not asked:
            return found
        ready, _ = ray.wait(list(asked), num_returns=len(asked), timeout=_PATIENCE_SECONDS)
        for reference in ready:
            try:
                values = ray.get(reference)
            except ray.exceptions.RayError as error:  # the node has gone, or is about to go
                logger.info("%s is not measured: %s", asked[reference], first_line(error))
            else:
                found |= {f"{asked[reference]}/{name}": value for name, value in values.items()}
        return found

    def _actors(self) -> list[tuple[str, Any]]:
        if nodes_to_come():  # an autoscaler never stops a node with an actor
            return []
        there = {
            node["NodeID"]: node["NodeManagerHostname"] for node in ray.nodes() if node["Alive"]
        }
        there.pop(self._own_node, None)
        self._others = {node: actor for node, actor in self._others.items() if node in there}
        for node in there.keys() - self._others.keys():
            self._others[node] = (
                ray.remote(Machine)
                .options(
                    num_cpus=0, scheduling_strategy=NodeAffinitySchedulingStrategy(node, False)
                )
                .remote()
            )
        return [(name, self._others[node]) for node, name in there.items()]
