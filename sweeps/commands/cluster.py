"""Commands for jobs on a Ray cluster."""

from __future__ import annotations

import os
import shlex
from dataclasses import asdict
from typing import Annotated

import typer

from sweeps.commands.app import CLUSTER, app
from sweeps.commands.options import (
    JOB,
    File,
    Form,
    JobName,
    NewName,
    OrResume,
    Overrides,
    Storage,
    Url,
)
from sweeps.commands.printing import print_job, print_notice
from sweeps.errors import SweepFailedError
from sweeps.messages.formatting import DEFAULT_STORAGE, resume_command
from sweeps.messages.redaction import redact


@app.command(rich_help_panel=CLUSTER)
def submit(
    file: File,
    storage: Storage = DEFAULT_STORAGE,
    address: Url = None,
    overrides: Overrides = None,
    name: NewName = None,
    or_resume: OrResume = False,
    follow: Annotated[
        bool, typer.Option("--follow", help="Print the job's output until it ends.")
    ] = False,
) -> None:
    """Submit a sweep to a Ray cluster as a job; the last line is its id.

    With --follow, the job's output comes after its id. Ctrl-C ends the view, not the job.
    """
    from sweeps.jobs.jobs import submit as submit_job
    from sweeps.sweep_file.loading import load_sweep

    sweep = load_sweep(file, overrides or (), name)
    job = submit_job(sweep, storage, address, print_notice, or_resume=or_resume)
    print_job(job, address, sweep.tracking.uri or os.environ.get("MLFLOW_TRACKING_URI"))
    if follow:
        _follow(job, address)


@app.command(rich_help_panel=CLUSTER)
def status(
    job: Annotated[str | None, JOB] = None, address: Url = None, form: Form = "table"
) -> None:
    """List the jobs on a Ray cluster, or show the state of one."""
    from sweeps.jobs import jobs
    from sweeps.jobs.client import job_page, token_hint
    from sweeps.jobs.tables import job_facts, jobs_table
    from sweeps.messages.documents import document
    from sweeps.terminal.console import plain_console

    console = plain_console()
    if job is not None:
        found = jobs.find_job(job, address)
        page, said = job_page(found.id, address), jobs.said_by(found, address)
        if form == "json":
            print(document("status", jobs=[{**asdict(found), **asdict(said), "page": page}]))
        else:
            console.print(job_facts(found, said, page + token_hint()))
        return
    every = jobs.list_jobs(address)
    if form == "json":
        print(document("status", jobs=[asdict(each) for each in every]))
    elif every:
        console.print(jobs_table(every))
    else:
        print("no sweep was submitted to this cluster")


@app.command(rich_help_panel=CLUSTER)
def logs(
    job: JobName,
    address: Url = None,
    follow: Annotated[
        bool, typer.Option("--follow", help="Keep printing until the job ends.")
    ] = False,
) -> None:
    """Print the output of a job."""
    from sweeps.jobs import jobs

    if follow:
        _follow(job, address)
        return
    for piece in jobs.logs(jobs.find_job(job, address), address, follow=False):
        print(piece, end="", flush=True)


def _follow(job: str, address: str | None) -> None:
    """Print the output of a job until it ends; an error if it fails."""
    from sweeps.jobs import jobs

    for piece in jobs.logs(
        jobs.find_job(job, address), address, follow=True, on_notice=print_notice
    ):
        print(piece, end="", flush=True)
    if (now := jobs.find_job(job, address)).state == "FAILED":
        raise SweepFailedError(f"job {now.id} failed: {now.message}")


@app.command(rich_help_panel=CLUSTER)
def stop(job: JobName, address: Url = None, storage: Storage = DEFAULT_STORAGE) -> None:
    """Stop a sweep that runs here, or a job, cleanly; the sweep can be resumed.

    Without --address, a sweep of this name in the storage is stopped.
    """
    from sweeps.jobs import jobs
    from sweeps.jobs.client import dashboard_url, names_cluster

    if not names_cluster(address):
        from sweeps.service.background import stop_here
        from sweeps.store.storage import is_name

        if is_name(job) and stop_here(job, storage):
            again = redact(resume_command(job, storage))
            print(f"{job}: stopped; {again} continues it")
            return
    ended = jobs.stop(jobs.find_job(job, address), address)
    print(f"{ended.id}: {ended.state}")
    if ended.state == "STOPPED" and not jobs.has_begun(ended, address):
        print("the sweep had not been created yet: submit it again")
    elif ended.state == "STOPPED":
        place = redact(f"--storage {shlex.quote(ended.storage)} --address {dashboard_url(address)}")
        print(f"`calsweep resume {ended.sweep} {place}` continues it")
