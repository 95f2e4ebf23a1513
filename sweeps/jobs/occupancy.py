"""The running and waiting sweeps of a Ray cluster, from its dashboard."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any, Literal

from sweeps.cluster import Announcement
from sweeps.jobs.client import ask
from sweeps.jobs.jobs import ENDED, JOBS, is_ours

_SECONDS_FOR_GROUPS = 30.0  # Ray collects them, which takes longer on a busy machine
_GROUPS = (
    "/api/v0/placement_groups?detail=1&limit=10000"
    "&filter_keys=state&filter_predicates=!%3D&filter_values=REMOVED"
)


@dataclass(frozen=True)
class SweepOnCluster:
    """A sweep that runs on a cluster, or waits to start there.

    Attributes:
        job: Id of the job if it was submitted, else id of its driver.
        state: ``starting`` until it asks for room for trials.
        started: When its driver started, in seconds since the epoch; 0 before.
        running: Number of trials that have room, and of idle processes kept for the next ones.
        waiting: Number of trials that wait for room.
    """

    sweep: str
    job: str
    state: Literal["waiting", "starting", "running"]
    started: float
    running: int
    waiting: int


def sweeps_on(address: str | None) -> list[SweepOnCluster]:
    """The sweeps on a cluster that have not ended, sorted by their start."""
    jobs = [job for job in ask(address, JOBS) if job["status"] not in ENDED]
    groups = ask(address, _GROUPS, _SECONDS_FOR_GROUPS)["data"]["result"]["result"]
    names = {
        group["creator_job_id"]: announced.sweep
        for group in groups
        if (announced := Announcement.read(group["name"])) is not None
    }
    trials = Counter(
        (group["creator_job_id"], group["state"] == "CREATED")
        for group in groups
        if group["state"] != "CREATED" or _has_a_device(group)
    )
    found = [
        SweepOnCluster(
            sweep=names.get(job["job_id"]) or job["metadata"]["calsweep_sweep"],
            job=job["submission_id"] or job["job_id"],
            state=_state(job, names),
            started=(job["start_time"] or 0) / 1000,
            running=trials[job["job_id"], True],
            waiting=trials[job["job_id"], False],
        )
        for job in jobs
        if job["job_id"] in names or is_ours(job)
    ]
    return sorted(found, key=lambda each: each.started or float("inf"))


def _state(
    job: dict[str, object], names: dict[str, str]
) -> Literal["waiting", "starting", "running"]:
    if job["job_id"] in names:
        return "running"
    return "waiting" if job["status"] == "PENDING" else "starting"


def _has_a_device(group: dict[str, Any]) -> bool:
    """Whether it reserves a device for a trial, unlike announcements and waiting processes."""
    resources = (bundle["unit_resources"] for bundle in group["bundles"])
    return any("CPU" in needed or "GPU" in needed for needed in resources)
