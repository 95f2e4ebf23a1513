"""Jobs of a cluster, for the terminal."""

from __future__ import annotations

import time
from collections.abc import Sequence

from rich.table import Table

from sweeps.jobs.jobs import Job, Said
from sweeps.jobs.occupancy import SweepOnCluster
from sweeps.messages.redaction import redact
from sweeps.terminal.console import facts_table, new_table


def jobs_table(jobs: Sequence[Job]) -> Table:
    table = new_table("job", "sweep", "state", "started", "took")
    for job in jobs:
        table.add_row(job.id, job.sweep, job.state, _moment(job.started), _took(job))
    return table


def occupancy_table(sweeps: Sequence[SweepOnCluster]) -> Table:
    """One line per sweep on a cluster that has not ended."""
    table = new_table("sweep", "job", "state", "started")
    for heading in ("trials\nrunning", "trials\nwaiting"):
        table.add_column(heading, justify="right")
    for each in sweeps:
        row = (each.sweep, each.job, each.state, _moment(each.started))
        table.add_row(*row, str(each.running), str(each.waiting))
    return table


def job_facts(job: Job, said: Said, page: str) -> Table:
    """What is known of a job; `page` is the link to it in the cluster's dashboard."""
    facts = {
        "job": job.id,
        "sweep": job.sweep,
        "storage": job.storage,
        "command": job.entrypoint,
        "state": job.state,
        "reason": said.reason,
        "message": job.message,
        "started": _moment(job.started),
        "took": _took(job),
        "progress": said.progress,
        "last line": "" if said.last_line in said.progress + said.reason else said.last_line,
        "dashboard": page,
    }
    return facts_table({name: redact(value) for name, value in facts.items() if value})


def _moment(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds)) if seconds else "not yet"


def _took(job: Job) -> str:
    if not job.started:
        return "–"
    seconds = round((job.ended or time.time()) - job.started)
    return f"{seconds // 3600}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
