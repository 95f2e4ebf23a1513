"""What several commands print."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from sweeps.errors import UserError
from sweeps.messages.formatting import calsweep_command, counted, storage_option
from sweeps.messages.redaction import redact
from sweeps.terminal.lasting import discard_unwritable

if TYPE_CHECKING:
    from sweeps.results.result import SweepResult
    from sweeps.service.course import EndedSweep


def show_table(what: object) -> None:
    """Print a table of rich, or text."""
    from sweeps.terminal.console import plain_console

    if isinstance(what, str):
        print(what)
    else:
        plain_console().print(what)


def print_notice(text: str) -> None:
    """Print to stderr what is not the output."""
    print(text, file=sys.stderr)


def print_job(job: str, address: str | None, tracking: str | None = None) -> None:
    """Print what can be done with a job, and its id."""
    from sweeps.jobs.client import dashboard_url, job_page, token_hint
    from sweeps.messages.redaction import without_credentials

    place = f"--address {dashboard_url(address)}"
    print(f"  output     calsweep logs {job} --follow {place}")
    print(f"  state      calsweep status {job} {place}")
    print(f"  stop       calsweep stop {job} {place}")
    print(f"  dashboard  {job_page(job, address)}{token_hint()}")
    if tracking:
        print(f"  MLflow     {without_credentials(tracking)}")
    print(job)


def print_answer(found: SweepResult, *, lasting: bool = False, whole: bool = False) -> None:
    """Print a result; `lasting` also where output cannot be written, `whole` with all reasons."""
    from sweeps.terminal import answers
    from sweeps.terminal.console import plain_console

    console = plain_console(lasting=lasting)
    console.print()
    (answers.print_whole_answer if whole else answers.print_answer)(console, found)
    console.file.flush()  # writing to MLflow follows, and may take long


def print_places(result: EndedSweep, name: str, storage: str) -> None:
    """Print the commands that show more of a sweep that has ended, and what MLflow lacks."""
    from sweeps.terminal.console import plain_console

    console = plain_console(lasting=True)
    where = redact(storage_option(storage))
    variable = redact(_tracking_variable(result.tracking_uri, storage))
    console.print(
        f"\n  reasons           calsweep show {name} --all{where}"
        f"\n  browse the runs   {variable}calsweep ui{where}{_leaderboard(result)}"
        f"\n  best per dataset  {variable}calsweep best{where}"
        f"\n  report            calsweep report {name}{where}",
        soft_wrap=True,
    )
    if result.fault is not None:
        lacking = (
            f"lacks {counted(result.unsynced, 'trial')}" if result.unsynced else "is not up to date"
        )
        again = calsweep_command(f"sync {name}", storage)
        console.print(
            f"\nMLflow {lacking}: {redact(result.fault)}\nThe sweep store has all of it; "
            f"{redact(again)} tries again and reports the cause.",
            soft_wrap=True,
        )
    discard_unwritable()


def _tracking_variable(uri: str, storage: str) -> str:
    """The variable that commands need if only the sweep file names the MLflow server."""
    from sweeps.tracking.address import tracking_uri

    with suppress(UserError):  # a remote storage has no default MLflow address
        if tracking_uri(storage) == uri:
            return ""
    return f"MLFLOW_TRACKING_URI={uri} "


def _leaderboard(result: EndedSweep) -> str:
    """A line with the link to the leaderboard in MLflow; empty if no server shows it now."""
    from sweeps.messages.redaction import without_credentials
    from sweeps.tracking.address import is_server
    from sweeps.tracking.view import LOCAL

    board, uri = result.leaderboard, result.tracking_uri
    if board is None or not (is_server(uri) or board.is_served(LOCAL)):
        return ""
    address = without_credentials(uri).rstrip("/") if is_server(uri) else LOCAL
    return f"\n  leaderboard       {board.link(address)}"
