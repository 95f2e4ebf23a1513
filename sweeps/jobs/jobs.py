"""Sweeps as jobs of a Ray cluster, through Ray's job API."""

from __future__ import annotations

import json
import os
import secrets
import shlex
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sweeps.cluster.ray_internals import SECONDS_TO_STOP
from sweeps.cluster.versions import check_jobs_version
from sweeps.errors import NameTakenError, SweepFailedError, UserError, first_line
from sweeps.jobs.client import ask, connected_client, dashboard_url
from sweeps.messages.events import split_events
from sweeps.messages.formatting import SUBMITTED_TO, resume_command
from sweeps.store.journal import SUBMITTED_BY, by_this_user
from trainables.plugins.arguments import did_you_mean

if TYPE_CHECKING:
    from sweeps.sweep_file.schema import SweepFile

OnNotice = Callable[[str], object]

# A stopped driver first brings MLflow up to date.
_SECONDS_TO_STOP = 90
_MOST_TRIES = 60  # to reconnect, two minutes with these pauses
_SECONDS_BETWEEN_LOOKS = 2.0
JOBS: Final = "/api/jobs/"
ENDED: Final = ("STOPPED", "SUCCEEDED", "FAILED")
_RESUMES: Final = "calsweep_resumes"  # metadata of a job: the sweep existed before


@dataclass(frozen=True)
class Job:
    """A sweep that was submitted to a cluster; times in seconds since the epoch.

    `state` is PENDING, RUNNING, STOPPED, SUCCEEDED or FAILED; `message` is Ray's about it. A job
    that `resumes` was submitted for a sweep that existed.
    """

    id: str
    sweep: str
    storage: str
    entrypoint: str
    state: str
    message: str
    started: float
    ended: float | None
    resumes: bool = False


def submit(
    sweep: SweepFile,
    storage: str,
    address: str | None,
    on_notice: OnNotice,
    *,
    or_resume: bool = False,
) -> str:
    """Submit a sweep to a cluster; returns the job's id.

    With `or_resume` the job resumes the sweep if it exists; otherwise its name must be new.

    `on_notice` is called with messages; the last one names the files, before they are sent.

    A cluster stores the command, metadata and environment variables of a job unencrypted, readable
    by all its users. So no environment variable of this machine is sent. The nodes need their own
    credentials for the storage (a path or URI as they know it) and MLflow, preferably a role.

    Raises:
        UserError: Something is wrong with the input; nothing was sent.
    """
    # Imported here, so that asking for the state of a job is fast.
    from sweeps.jobs.shipping import SWEEP_FILE
    from sweeps.planning.checks import check_sweep
    from sweeps.planning.portability import check_reachable

    uri = sweep.tracking.uri or os.environ.get("MLFLOW_TRACKING_URI")
    sweep = sweep.model_copy(update={"tracking": sweep.tracking.model_copy(update={"uri": uri})})
    check_reachable(storage, sweep)
    dashboard_url(address)  # reports a malformed URL before the slow import of torch
    check_sweep(sweep)
    place = _Place(sweep.name, storage, address)
    if not or_resume:
        _check_free(place)
    command = ["run", SWEEP_FILE, *(["--or-resume"] if or_resume else [])]
    return _submit(command, place, sweep, on_notice)


@dataclass(frozen=True)
class _Place:
    """A sweep on a cluster: its name, the storage as the nodes know it, the cluster's address."""

    name: str
    storage: str
    address: str | None

    def jobs(self) -> list[Job]:
        """The jobs that were submitted for it, newest first."""
        every = list_jobs(self.address)
        return [job for job in every if (job.sweep, job.storage) == (self.name, self.storage)]


def _check_free(place: _Place) -> None:
    """Refuse the name of a sweep that exists, as far as this machine or the cluster's jobs know."""
    name, storage, address = place.name, place.storage, place.address
    exists = _exists(name, storage)
    if exists is None:  # this machine cannot read the storage
        exists = any(has_begun(job, address) for job in place.jobs())
    if exists:
        raise NameTakenError(
            f"name = {name!r}: a sweep of this name exists in {storage}; "
            f"{resume_command(name, storage, dashboard_url(address))} continues it, or choose "
            "another name"
        )


def _exists(name: str, storage: str) -> bool | None:
    """Whether a sweep exists; None if that is not known on this machine."""
    from sweeps.store.sweep_store import SweepStore

    if "://" not in storage and not os.path.isdir(storage):
        return None
    try:
        return SweepStore(storage, name).exists()
    except UserError:  # no credentials here, for example
        return None


def submit_resume(
    name: str, storage: str, address: str | None, overrides: Sequence[str], on_notice: OnNotice
) -> str:
    """Continue a sweep on a cluster, with other budgets if given; see :func:`submit`."""
    from sweeps.planning.portability import check_reachable
    from sweeps.store.sweep_store import SweepStore
    from sweeps.sweep_file.loading import check_budgets

    check_reachable(storage)
    store = SweepStore(storage, name)  # refuses a name that no sweep can have
    if os.path.isdir(storage):
        store.load_sweep()
    check_budgets(overrides)  # all users of the cluster can read a job's command
    command = ["resume", name, *(f"--set={override}" for override in overrides)]
    return _submit(command, _Place(name, storage, address), None, on_notice)


def _submit(command: list[str], place: _Place, sweep: SweepFile | None, on_notice: OnNotice) -> str:
    from sweeps.jobs.shipping import stage

    url = dashboard_url(place.address)
    cluster = ask(place.address, "/api/version")["ray_version"]
    if (notice := check_jobs_version(cluster, url)) is not None:
        on_notice(notice)
    arguments = [*command, "--address", "auto", "--storage", place.storage]
    with tempfile.TemporaryDirectory(prefix="calsweep-") as folder:
        shipment = stage(Path.cwd(), Path(folder), sweep)
        for job in place.jobs():
            if job.state not in ENDED:
                raise UserError(
                    f"sweep {place.name!r} is being run by job {job.id}; wait for it, or end it by "
                    f"`calsweep stop {job.id} --address {url}`"
                )
        on_notice(f"sending {shipment}")
        with connected_client(place.address) as client:
            submitted = client.submit_job(
                entrypoint=shlex.join(["python", "-m", "sweeps.cli", *arguments]),
                submission_id=f"{place.name}-{secrets.token_hex(3)}",
                runtime_env={
                    "working_dir": folder,
                    "env_vars": {
                        SECONDS_TO_STOP: str(_SECONDS_TO_STOP),
                        SUBMITTED_TO: url,
                        SUBMITTED_BY: by_this_user(),
                    },
                },
                metadata={
                    "calsweep_sweep": place.name,
                    "calsweep_storage": place.storage,
                    _RESUMES: json.dumps(sweep is None),
                },
            )
    return str(submitted)


def list_jobs(address: str | None) -> list[Job]:
    """The sweeps that were submitted to a cluster, newest first."""
    found = [_job(details) for details in ask(address, JOBS) if is_ours(details)]
    return sorted(found, key=lambda job: job.started, reverse=True)


def find_job(name: str, address: str | None) -> Job:
    """The job with this id, or the latest job of this sweep; UserError if there is none."""
    jobs = list_jobs(address)
    for job in jobs:
        if name in (job.id, job.sweep):
            return job
    known = [job.id for job in jobs]
    raise UserError(
        f"no job {name!r} at {dashboard_url(address)}{did_you_mean(name, known)}; "
        f"there {'are: ' + ', '.join(known) if known else 'is none'}"
    )


@dataclass(frozen=True)
class Said:
    """What the output of a job says: its last lines, and why it has failed; texts may be empty."""

    progress: str
    last_line: str
    reason: str


def said_by(job: Job, address: str | None) -> Said:
    return _said_in(_said(job, address), failed=job.state == "FAILED")


def _said_in(output: str, *, failed: bool) -> Said:
    events, text = split_events(output)
    said = {event.kind: event.text for event in events}
    last_line = (text.strip().splitlines() or [""])[-1]
    return Said(
        said.get("progress", ""), last_line, said.get("failed", last_line) if failed else ""
    )


def logs(
    job: Job, address: str | None, *, follow: bool, on_notice: OnNotice = lambda _: None
) -> Iterator[str]:
    """The output of a job; with ``follow``, what is new every few seconds, until it ends.

    If contact is lost, it reconnects. SweepFailedError if it cannot.
    """
    printed, tries = 0, 0
    answered = False
    while True:
        try:
            ended = not follow or _now(job, address).state in ENDED  # before its last output
            said = _said(job, address)
        except UserError as error:
            if not answered:  # for example a wrong token
                raise
            tries += 1
            if tries > _MOST_TRIES:
                raise _connection_lost(job, address, error) from None
            if tries == 1:
                on_notice(f"the connection to {dashboard_url(address)} was lost; reconnecting")
        else:
            whole = said if ended else said[: said.rfind("\n") + 1]
            text = split_events(whole)[1]
            yield text[printed:]
            printed, tries, answered = len(text), 0, True
            if ended:
                return
        time.sleep(_SECONDS_BETWEEN_LOOKS)


def _connection_lost(job: Job, address: str | None, error: Exception) -> SweepFailedError:
    url = dashboard_url(address)
    return SweepFailedError(
        f"the connection to {url} was lost ({first_line(error)}). The job may still run: "
        f"`calsweep logs {job.id} --follow --address {url}` follows it when the cluster answers. "
        f"If the cluster has gone, {resume_command(job.sweep, job.storage, url)} continues the "
        "sweep on a new one"
    )


def stop(job: Job, address: str | None) -> Job:
    """Stop a job, resumably, and wait; SweepFailedError if it does not end."""
    with connected_client(address) as client:
        client.stop_job(job.id)
        until = time.monotonic() + _SECONDS_TO_STOP + 30
        while time.monotonic() < until:
            now = _now(job, address)
            if now.state in ENDED:
                return now
            time.sleep(0.5)
    raise SweepFailedError(f"job {job.id} was asked to stop, and is still {now.state}")


def has_begun(job: Job, address: str | None) -> bool:
    """Whether the sweep of a job exists, so that it can be resumed."""
    events, _ = split_events(_said(job, address))
    return job.resumes or any(event.kind == "begun" for event in events)


def _now(job: Job, address: str | None) -> Job:
    return _job(ask(address, f"{JOBS}{job.id}"))


def _said(job: Job, address: str | None) -> str:
    return str(ask(address, f"{JOBS}{job.id}/logs")["logs"])


def is_ours(details: dict[str, Any]) -> bool:
    """Whether a job that Ray lists is a sweep that was submitted."""
    known = details.get("metadata") or {}
    return bool(details.get("submission_id") and known.get("calsweep_sweep"))


def _job(details: dict[str, Any]) -> Job:
    ended = details.get("end_time")
    return Job(
        id=details["submission_id"],
        sweep=details["metadata"]["calsweep_sweep"],
        storage=details["metadata"]["calsweep_storage"],
        entrypoint=details["entrypoint"],
        state=details["status"],
        # Ray appends the end of the log to its message; the user has seen the log.
        message=(details.get("message") or "").partition(", last available logs")[0],
        started=(details.get("start_time") or 0) / 1000,
        ended=ended / 1000 if ended else None,
        resumes=details["metadata"].get(_RESUMES) == json.dumps(True),
    )
