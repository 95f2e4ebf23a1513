"""Sweeps as jobs of a Ray cluster, through Ray's job API."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import secrets
import shlex
import socket
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from sweeps.errors import UserError, did_you_mean
from sweeps.shipping import SWEEP_FILE, check_reachable, stage
from sweeps.sweep_file import SweepFile, TrackingSection

if TYPE_CHECKING:
    from ray.job_submission import JobSubmissionClient

_DEFAULT_ADDRESS = "http://127.0.0.1:8265"
_PATIENCE_SECONDS = 5.0
# A driver that is stopped still brings MLflow up to date.
_SECONDS_TO_STOP = 90
_ENDED = ("STOPPED", "SUCCEEDED", "FAILED")


@dataclass(frozen=True)
class Job:
    """A sweep that was handed to a cluster.

    Attributes:
        id: The job's id.
        sweep: Name of the sweep.
        storage: Where the sweep lies.
        state: PENDING, RUNNING, STOPPED, SUCCEEDED or FAILED.
        message: What Ray says about the state.
        started: Seconds since the epoch.
        ended: The same, or None.
    """

    id: str
    sweep: str
    storage: str
    state: str
    message: str
    started: float
    ended: float | None


def submit(sweep: SweepFile, storage: str, address: str | None) -> tuple[str, list[str]]:
    """Hand a new sweep to a cluster.

    Args:
        sweep: The sweep; it should have been checked.
        storage: Path or URI of the sweep store, as the cluster's nodes know it.
        address: URL of the cluster's dashboard; by default ``RAY_API_SERVER_ADDRESS``, else this
            machine's.

    Returns:
        The job's id, and the user's modules that were sent.

    Raises:
        UserError: Something is wrong with the input; nothing was sent.
    """
    uri = sweep.tracking.uri or os.environ.get("MLFLOW_TRACKING_URI")
    sweep = sweep.model_copy(update={"tracking": TrackingSection(uri=uri)})
    check_reachable(storage, sweep)
    return _submit(["run", SWEEP_FILE], sweep.name, storage, address, sweep)


def submit_resume(name: str, storage: str, address: str | None) -> tuple[str, list[str]]:
    """Have a cluster go on with a sweep; see :func:`submit`."""
    check_reachable(storage)
    return _submit(["resume", name], name, storage, address, None)


def _submit(
    command: list[str], name: str, storage: str, address: str | None, sweep: SweepFile | None
) -> tuple[str, list[str]]:
    entrypoint = ["calsweep", *command, "--address", "auto", "--storage", storage]
    with _client(address) as client, tempfile.TemporaryDirectory(prefix="calsweep-") as folder:
        modules = stage(Path.cwd(), Path(folder), sweep)
        job = client.submit_job(
            entrypoint=shlex.join(entrypoint),
            submission_id=f"{name}-{secrets.token_hex(3)}",
            # None of this machine's environment variables is sent: they may hold secrets.
            runtime_env={
                "working_dir": folder,
                "env_vars": {"RAY_JOB_STOP_WAIT_TIME_S": str(_SECONDS_TO_STOP)},
            },
            metadata={"calsweep_sweep": name, "calsweep_storage": storage},
        )
    return job, modules


def list_jobs(address: str | None) -> list[Job]:
    """The sweeps that were handed to a cluster, the last one first.

    Raises:
        UserError: The cluster does not answer, or wants another token.
    """
    with _client(address) as client:
        return _jobs(client)


def find_job(name: str, address: str | None) -> Job:
    """A job by its id, or the last one of the sweep of that name.

    Raises:
        UserError: There is none; or see :func:`list_jobs`.
    """
    jobs = list_jobs(address)
    for job in jobs:
        if name in (job.id, job.sweep):
            return job
    known = [job.id for job in jobs]
    raise UserError(
        f"no job {name!r} at {_url(address)}; {did_you_mean(name, known)}"
        f"there {'are: ' + ', '.join(known) if known else 'is none'}"
    )


def last_line(job: Job, address: str | None) -> str:
    """The last line that a job has printed."""
    with _client(address) as client:
        lines = client.get_job_logs(job.id).strip().splitlines()
    return str(lines[-1]) if lines else ""


def logs(job: Job, address: str | None, follow: bool) -> Iterator[str]:
    """What a job has printed; with ``follow``, until it ends."""
    with _client(address) as client:
        if not follow:
            yield client.get_job_logs(job.id)
            return
        pieces = client.tail_job_logs(job.id)
        loop = asyncio.new_event_loop()
        try:
            while True:
                yield loop.run_until_complete(anext(pieces))
        except StopAsyncIteration:
            return
        finally:
            loop.close()


def stop(job: Job, address: str | None) -> Job:
    """End a job in order, so that its sweep can be resumed; wait until it has ended."""
    with _client(address) as client:
        client.stop_job(job.id)
        until = time.monotonic() + _SECONDS_TO_STOP + 30
        while time.monotonic() < until:
            now = next(each for each in _jobs(client) if each.id == job.id)
            if now.state in _ENDED:
                return now
            time.sleep(0.5)
    return now


def _jobs(client: JobSubmissionClient) -> list[Job]:
    found = [_job(details) for details in client.list_jobs() if _is_ours(details)]
    return sorted(found, key=lambda job: job.started, reverse=True)


def _is_ours(details: Any) -> bool:
    return bool(details.submission_id and (details.metadata or {}).get("calsweep_sweep"))


def _job(details: Any) -> Job:
    return Job(
        id=details.submission_id,
        sweep=details.metadata["calsweep_sweep"],
        storage=details.metadata["calsweep_storage"],
        state=str(details.status.value),
        message=details.message or "",
        started=(details.start_time or 0) / 1000,
        ended=details.end_time / 1000 if details.end_time else None,
    )


def _url(address: str | None) -> str:
    """The dashboard's URL.

    Raises:
        UserError: It is malformed.
    """
    given = address or os.environ.get("RAY_API_SERVER_ADDRESS") or _DEFAULT_ADDRESS
    url = given if "://" in given else f"http://{given}"
    parts = urlsplit(url)
    try:
        port = parts.port
    except ValueError:
        port = None
    well_formed = parts.scheme in ("http", "https") and parts.hostname
    if not well_formed or (port is None and parts.scheme == "http"):
        raise UserError(
            f"--address = {given!r} is not allowed; allowed: the URL of the cluster's dashboard, "
            "such as http://127.0.0.1:8265 (by default RAY_API_SERVER_ADDRESS)"
        )
    return url.rstrip("/")


@contextmanager
def _client(address: str | None) -> Iterator[JobSubmissionClient]:
    """A client of the job API; what it complains of becomes one clear message."""
    url = _url(address)
    parts = urlsplit(url)
    try:
        port = parts.port or 443
        socket.create_connection((parts.hostname or "", port), _PATIENCE_SECONDS).close()
    except OSError as error:
        raise UserError(_no_answer(url, error)) from None
    from ray.exceptions import AuthenticationError
    from ray.job_submission import JobSubmissionClient

    for name in ("dashboard_sdk", "job.sdk"):  # which tell of every package
        logging.getLogger(f"ray.dashboard.modules.{name}").setLevel(logging.ERROR)
    try:
        yield JobSubmissionClient(url)
    except AuthenticationError as error:
        raise UserError(_wrong_token(url, str(error))) from None
    except ConnectionError as error:
        raise UserError(_no_answer(url, error)) from None
    except (RuntimeError, ValueError) as error:
        raise UserError(f"{url} refuses: {_first_line(error)}") from None


def _no_answer(url: str, error: Exception) -> str:
    return (
        f"--address = {url!r}: no Ray dashboard answers there ({_first_line(error)}); start the "
        "cluster's head with ray[default] installed, or open a tunnel to it: `ray dashboard "
        "cluster.yaml`"
    )


def _wrong_token(url: str, reason: str) -> str:
    what = "the token is not the cluster's" if "403" in reason or "failed" in reason else "no token"
    mode = "" if os.environ.get("RAY_AUTH_MODE") == "token" else "RAY_AUTH_MODE=token and "
    return (
        f"{url} asks for a token: {what}; set {mode}the token in RAY_AUTH_TOKEN, in the file that "
        "RAY_AUTH_TOKEN_PATH names, or in ~/.ray/auth_token"
    )


def _first_line(error: Exception) -> str:
    text = re.sub(r"<[^>]*>", " ", str(error)).strip()
    return text.splitlines()[0] if text else type(error).__name__
