"""Several sweeps on one cluster: each gets its share of the resources."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Final

import ray
from ray.util import placement_group, placement_group_table, remove_placement_group

from sweeps.cluster.ray_internals import job_of_placement_group

_ANNOUNCEMENT: Final = "calsweep:"  # prefix of the name of a sweep's placement group
_WAITING = ("PENDING", "RESCHEDULING")


@contextmanager
def announced(sweep: str) -> Iterator[None]:
    """Context: announces to other drivers on the cluster that this one runs a sweep.

    The announcement is the name of a placement group that reserves nothing a trial needs. Ray
    removes the group when the driver ends, even if it is killed.
    """
    here = ray.get_runtime_context().get_node_id()  # on another node it would keep it busy
    (node,) = (node["NodeManagerAddress"] for node in ray.nodes() if node["NodeID"] == here)
    group = placement_group([{f"node:{node}": 0.001}], name=f"{_ANNOUNCEMENT}{sweep}")
    try:
        yield
    finally:
        with suppress(Exception):  # the cluster may have gone, which was reported before
            remove_placement_group(group)


def fair_share(room: int) -> int:
    """The number of trials that this sweep may run, of those for which the whole cluster has room.

    These are all, unless trials of another sweep wait. Then every announced sweep may run the same
    number, at least one. Running trials are not interrupted; their processes are released when they
    end.
    """
    return share_of(room, ray.get_runtime_context().get_job_id(), placement_group_table().values())


def share_of(room: int, own: str, groups: Iterable[Mapping[str, Any]]) -> int:
    """The share of the job ``own``, by Ray's table of placement groups."""
    job_of = job_of_placement_group
    groups = [group for group in groups if group["state"] != "REMOVED"]
    sweeps = {job_of(group) for group in groups if group["name"].startswith(_ANNOUNCEMENT)}
    waiting = {job_of(group) for group in groups if group["state"] in _WAITING}
    if own not in sweeps or not waiting & sweeps - {own}:
        return room
    return max(1, room // len(sweeps))
