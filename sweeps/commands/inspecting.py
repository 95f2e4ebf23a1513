"""Commands that read sweeps, compare them, and keep them in order."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from sweeps.commands.app import INSPECT, SELECT, app
from sweeps.commands.options import Form, OneSweepName, Storage, SweepName, SweepNames
from sweeps.commands.printing import print_answer, show_table
from sweeps.errors import UserError
from sweeps.messages.formatting import DEFAULT_STORAGE, calsweep_command, counted, resume_command
from sweeps.messages.redaction import redact

if TYPE_CHECKING:
    from sweeps.service.upkeep import Scope


@app.command(rich_help_panel=INSPECT)
def show(
    name: SweepName,
    storage: Storage = DEFAULT_STORAGE,
    whole: Annotated[
        bool, typer.Option("--all", help="Also all losses, all verdicts, and the reasons.")
    ] = False,
    form: Form = "table",
) -> None:
    """Print the result of a sweep, or its state so far."""
    if form == "json":
        from sweeps.service.reading.finding import show_document

        print(show_document(name, storage))
    else:
        _show(name, storage, whole=whole)


def _show(name: str, storage: str, *, whole: bool = False) -> None:
    from sweeps.service.reading.finding import read_answer, read_pilot, read_state

    finished = False
    if (pilot := read_pilot(name, storage)) is not None:
        print(pilot)
    else:
        _, answer, finished = read_answer(name, storage)
        print_answer(answer, whole=whole)
        if not whole:
            command = redact(calsweep_command(f"show {name} --all", storage))
            print(f"\n{command} has the reasons and all verdicts")
    if finished:
        return
    if read_state(name, storage) == "running":
        print(f"\nstill running; {redact(calsweep_command(f'watch {name}', storage))} follows it")
    else:
        print(f"\nnot finished; {redact(resume_command(name, storage))} continues it")


@app.command("list", rich_help_panel=INSPECT)
def list_sweeps(
    storage: Storage = DEFAULT_STORAGE,
    address: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="List what runs and waits on the Ray cluster of this dashboard instead.",
        ),
    ] = None,
    form: Form = "table",
) -> None:
    """List the sweeps in the storage: progress, owner, cost, best setting."""
    from sweeps.messages.documents import document

    if address is not None:
        from sweeps.jobs.occupancy import sweeps_on
        from sweeps.jobs.tables import occupancy_table

        there = sweeps_on(address)
        listed = [asdict(each) for each in there]
        shown = occupancy_table(there) if there else "no sweep runs or waits on this cluster"
    else:
        from sweeps.service.reading.finding import overviews
        from sweeps.terminal.answers import overview_table

        found = overviews(storage)
        listed = [asdict(each) for each in found]
        shown = overview_table(found) if found else f"no sweep in {redact(storage)} yet"
    if form == "json":
        print(document("list", sweeps=listed))
    else:
        show_table(shown)


@app.command(rich_help_panel=SELECT)
def compare(names: SweepNames, storage: Storage = DEFAULT_STORAGE) -> None:
    """Compare the selected settings of several sweeps, loss by loss."""
    from sweeps.service.reading.finding import side_by_side
    from sweeps.terminal.answers import side_by_side_tables

    first, second = side_by_side_tables(side_by_side(names, storage))
    show_table(first)
    print()
    show_table(second)


@app.command(rich_help_panel=INSPECT)
def watch(name: SweepName, storage: Storage = DEFAULT_STORAGE) -> None:
    """Follow a running sweep until it ends, and print its result.

    Ctrl-C ends the view, not the sweep.
    """
    from sweeps.service.reading.finding import look_at
    from sweeps.terminal.console import plain_console
    from sweeps.terminal.watching import watch as follow

    follow(lambda: look_at(name, storage), plain_console())
    _show(name, storage)


@app.command(rich_help_panel=INSPECT)
def delete(
    name: OneSweepName = None,
    storage: Storage = DEFAULT_STORAGE,
    older_than: Annotated[
        str | None,
        typer.Option(
            metavar="AGE", help="Delete all sweeps whose last trial ended longer ago: 30d."
        ),
    ] = None,
    keep_best: Annotated[
        bool,
        typer.Option("--keep-best", help="Keep those that `calsweep best` names."),
    ] = False,
    runs: Annotated[
        bool,
        typer.Option("--runs", help="Also delete runs in MLflow, unless a model is registered."),
    ] = False,
    checkpoints: Annotated[
        bool, typer.Option("--checkpoints", help="Delete only the checkpoints.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
) -> None:
    """Delete a sweep from the storage, or all that are old."""
    from sweeps.service.reading.finding import old_sweeps
    from sweeps.service.upkeep import check_left, delete_sweep

    if (name is None) == (older_than is None):
        raise UserError("delete: give either the name of a sweep or --older-than")
    if checkpoints and runs:
        raise UserError("--checkpoints: with --runs it is not allowed; leave one of them out")
    if keep_best and older_than is None:
        raise UserError("--keep-best is allowed only with --older-than")
    names = (
        [name] if name is not None else old_sweeps(storage, older_than or "", keep_best=keep_best)
    )
    if not names:
        print(f"no sweep in {redact(storage)} is older than {older_than}")
        return
    what = "the checkpoints of sweep" if checkpoints else "sweep"
    for each in names:
        check_left(each, storage)
    if not yes:
        listed = ", ".join(map(repr, names))
        typer.confirm(f"delete {what} {listed} in {redact(storage)}?", abort=True)
    scope: Scope = "checkpoints" if checkpoints else "sweep and runs" if runs else "sweep"
    for each in names:
        count = delete_sweep(each, storage, scope)
        with_runs = f", with {counted(count, 'run')} in MLflow" if runs else ""
        print(f"deleted: {what} {each}{with_runs}")


@app.command(rich_help_panel=SELECT)
def best(
    storage: Storage = DEFAULT_STORAGE,
    dataset: Annotated[str | None, typer.Option(help="Only this dataset.")] = None,
    model: Annotated[str | None, typer.Option(help="Only this model.")] = None,
    objective: Annotated[str | None, typer.Option(help="Only sweeps with this objective.")] = None,
    form: Annotated[
        Literal["table", "json", "yaml"], typer.Option("--format", help="Output format.")
    ] = "table",
) -> None:
    """Print the best hyperparameters per dataset and model.

    All sweeps in the storage or in MLflow are compared.
    """
    from sweeps.service.reading.finding import find_best
    from sweeps.terminal.answers import render_best

    found = find_best(storage, dataset, model, objective)
    render_best(found.entries, form, found.read_sweep_file)


@app.command(rich_help_panel=INSPECT)
def report(
    names: SweepNames,
    storage: Storage = DEFAULT_STORAGE,
    compare: Annotated[
        bool, typer.Option("--compare", help="One page that compares several sweeps.")
    ] = False,
    output: Annotated[
        str | None,
        typer.Option(
            help="The file; default <NAME>-report.html or comparison.html; figures are written to "
            "a folder, by default <NAME>-figures."
        ),
    ] = None,
    form: Annotated[
        Literal["html", "pdf", "svg"],
        typer.Option("--format", help="An HTML page, or figures for a paper."),
    ] = "html",
) -> None:
    """Write an HTML report, or figures for a paper."""
    from sweeps.service.reading.writing import write_figures, write_report, write_side_by_side

    if compare and form != "html":
        raise UserError(f"--format {form}: with --compare only html is allowed")
    if compare:
        print(f"written: {write_side_by_side(names, storage, output)}")
        return
    if len(names) > 1:
        raise UserError(
            f"{' '.join(names)}: one report is of one sweep; `calsweep report --compare "
            f"{' '.join(names)}` writes one page of several"
        )
    (name,) = names
    if form == "html":
        print(f"written: {write_report(name, storage, output)}")
        return
    for path in write_figures(name, storage, form, output):
        print(f"written: {path}")


@app.command(rich_help_panel=INSPECT)
def table(
    names: SweepNames,
    storage: Storage = DEFAULT_STORAGE,
    rows: Annotated[
        Literal["loss", "dataset", "model", "sweep"], typer.Option(help="What a row is.")
    ] = "loss",
    columns: Annotated[
        Literal["loss", "dataset", "model", "sweep"], typer.Option(help="What a column is.")
    ] = "dataset",
    metrics: Annotated[
        str, typer.Option(help="Metrics of the test split; ece_scaled is after a temperature.")
    ] = "ece,nll,error",
    output: Annotated[str | None, typer.Option(help="The file; printed if omitted.")] = None,
    form: Annotated[
        Literal["latex", "csv", "markdown", "json"], typer.Option("--format", help="Output format.")
    ] = "markdown",
) -> None:
    """Print one table of a sweep or several for a paper."""
    from sweeps.messages.files import write_text
    from sweeps.pages.results_table import results_table
    from sweeps.service.reading.writing import values_in_table

    text = results_table(values_in_table(names, storage, metrics), rows, columns, form)
    if output is None:
        print(text, end="")
    else:
        print(f"written: {write_text(text, output)}")


@app.command(rich_help_panel=INSPECT)
def sync(name: SweepName, storage: Storage = DEFAULT_STORAGE) -> None:
    """Write to MLflow what it missed while it was unreachable."""
    from sweeps.service.upkeep import sync_sweep
    from sweeps.terminal.console import plain_console
    from sweeps.terminal.progress import Progress

    with Progress(plain_console(lasting=True)) as progress:
        done = sync_sweep(name, storage, progress)
    print(f"MLflow is up to date: {counted(done.trials, 'trial')} of {name}")
    if done.deleted:
        print(
            f"the runs of {done.deleted} of them were deleted in MLflow, and stay so until they "
            "are restored there"
        )


@app.command(rich_help_panel=INSPECT)
def ui(
    storage: Storage = DEFAULT_STORAGE,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port to listen on.")] = 5000,
) -> None:
    """Open the MLflow UI on the runs; Ctrl-C ends it.

    If the runs are on a tracking server, print its links instead.
    """
    from sweeps.tracking.server import serve

    serve(storage, host, port)
