"""Several sweeps on one cluster: each gets its share of the room."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import ray
from ray.util import placement_group, placement_group_table, remove_placement_group

from sweeps.cluster.internals import job_of_placement_group
from sweeps.cluster.occupancy import ANNOUNCEMENT

_WAITING = ("PENDING", "RESCHEDULING")


@contextmanager
def announced(sweep: str) -> Iterator[None]:
    """Context in which the cluster's other users see that this driver runs a sweep.

    It is announced by the name of a placement group, which takes nothing that a trial needs. Ray
    removes the group when the driver ends, even if it is killed.

    Args:
        sweep: Name of the sweep.
    """
    here = ray.get_runtime_context().get_node_id()  # on another node it would keep an idle one
    (node,) = (node["NodeManagerAddress"] for node in ray.nodes() if node["NodeID"] == here)
    group = placement_group([{f"node:{node}": 0.001}], name=f"{ANNOUNCEMENT}{sweep}")
    try:
        yield
    finally:
        with suppress(Exception):  # the cluster may be gone, which has been reported
            remove_placement_group(group)


def fair_share(room: int) -> int:
    """How many trials this sweep may run.

    All that the cluster has room for, unless trials of another sweep wait: then every announced
    sweep may run equally many, and at least one. Trials that run are not ended for that; their
    processes are released as they end.

    Args:
        room: Number of trials of this sweep that fit on the whole cluster.
    """
    return share_of(room, ray.get_runtime_context().get_job_id(), placement_group_table().values())


def share_of(room: int, own: str, groups: Iterable[Mapping[str, Any]]) -> int:
    """The share of the job ``own``, by Ray's table of placement groups."""
    job_of = job_of_placement_group
    groups = [group for group in groups if group["state"] != "REMOVED"]
    sweeps = {job_of(group) for group in groups if group["name"].startswith(ANNOUNCEMENT)}
    waiting = {job_of(group) for group in groups if group["state"] in _WAITING}
    if own not in sweeps or not waiting & sweeps - {own}:
        return room
    return max(1, room // len(sweeps))
