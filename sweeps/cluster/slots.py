"""How many concurrent trials may run: this sweep's share of the cluster, fewer short of memory."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import ray
from ray.util import placement_group, placement_group_table, remove_placement_group

from sweeps.cluster import Announcement
from sweeps.cluster.ray_internals import job_of_placement_group

_KNOWN_FOR_SECONDS = 5.0
_FIRST_REST, _LONGEST_REST = 15.0, 300.0  # seconds in which no trial begins after a shortage
_FIRST_LIMIT = 300.0  # seconds in which fewer trials run; twice as long after each shortage


class Slots:
    """As many slots as the cluster has room for; fewer for a while after a lack of memory."""

    def __init__(
        self, room: Callable[[], int], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._ask = room
        self._clock = clock
        self._room, self._asked = room(), clock()
        self._shortages = 0
        self._limit = 0
        self._limited_until = self._resting_until = self._asked

    def __call__(self) -> int:
        """How many trials may run now."""
        now = self._clock()
        if now - self._asked > _KNOWN_FOR_SECONDS:
            self._room, self._asked = self._ask(), now
        if now < self._resting_until:
            return 0
        return min(self._room, self._limit) if now < self._limited_until else self._room

    def out_of_memory(self, running: int) -> str:
        """A trial was killed for lack of memory: pause, then allow one less than were `running`.

        If the shortage lasts or recurs, both times double each time. Returns a message about it.
        """
        now = self._clock()
        if now >= self._resting_until:
            self._shortages += 1
        longer = 2 ** (self._shortages - 1)
        rest, limited = min(_FIRST_REST * longer, _LONGEST_REST), _FIRST_LIMIT * longer
        self._limit = max(1, running - 1)
        self._resting_until, self._limited_until = now + rest, now + limited
        trials = "one trial runs" if self._limit == 1 else f"{self._limit} trials run concurrently"
        return f"continues in {rest:.0f} s; for {limited / 60:.0f} minutes at most {trials}"


@contextmanager
def announced(sweep: Announcement) -> Iterator[None]:
    """Context: announces to other drivers on the cluster that this one runs a sweep.

    The announcement is the name of a placement group that reserves nothing a trial needs. Ray
    removes the group when the driver ends, even if it is killed.
    """
    here = ray.get_runtime_context().get_node_id()  # on another node it would keep it busy
    (node,) = (node["NodeManagerAddress"] for node in ray.nodes() if node["NodeID"] == here)
    group = placement_group([{f"node:{node}": 0.001}], name=str(sweep))
    try:
        yield
    finally:
        with suppress(Exception):  # the cluster may have gone, which was reported before
            remove_placement_group(group)


def fair_share(room: int) -> int:
    """The number of trials that this sweep may run, of those for which the whole cluster has room.

    These are all, unless trials of another sweep wait. Then every announced sweep may run the same
    number, at least one. While trials of a sweep with a higher priority wait, none begins. Running
    trials are not interrupted; their processes are released when they end.
    """
    return share_of(room, ray.get_runtime_context().get_job_id(), placement_group_table().values())


def share_of(room: int, own: str, groups: Iterable[Mapping[str, Any]]) -> int:
    """The share of the job ``own``, by Ray's table of placement groups."""
    job_of = job_of_placement_group
    groups = [group for group in groups if group["state"] != "REMOVED"]
    named = ((job_of(group), Announcement.read(group["name"])) for group in groups)
    priorities = {job: found.priority for job, found in named if found is not None}
    waiting = {job_of(group) for group in groups if group["state"] in ("PENDING", "RESCHEDULING")}
    others = [priorities[job] for job in waiting & priorities.keys() - {own}]
    if own not in priorities or not others or max(others) < priorities[own]:
        return room
    if max(others) > priorities[own]:
        return 0
    equal = sum(priority == priorities[own] for priority in priorities.values())
    return max(1, room // equal)
