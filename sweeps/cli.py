"""The ``calsweep`` command: parses, calls, prints. Heavy imports wait until they are needed."""

from __future__ import annotations

import math
import os
import shlex
import sys
from contextlib import suppress
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sweeps.cluster.internals import is_driver_of_a_job
from sweeps.errors import SweepFailedError, SweepInterruptedError, UserError
from sweeps.formatting import counted
from sweeps.redaction import print_traceback, redact, redact_what_python_prints
from sweeps.terminal.encoding import print_what_they_can

if TYPE_CHECKING:
    from sweeps.cluster.shipping import Shipment
    from sweeps.runner import SweepResult
    from sweeps.sweep_file.schema import SweepFile

app = typer.Typer(
    name="calsweep",
    help="Finds the hyperparameters that make a classifier's confidence honest.",
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

Storage = Annotated[
    str,
    typer.Option(
        envvar="CALSWEEP_STORAGE",
        metavar="PATH_OR_URI",
        help="Where sweeps, checkpoints and MLflow's database live.",
    ),
]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Override one value, e.g. training.epochs=5."),
]
NewName = Annotated[str | None, typer.Option("--name", help="Name of the sweep.")]
Address = Annotated[str | None, typer.Option(help="A Ray cluster, host:port or 'auto'.")]
Url = Annotated[
    str | None,
    typer.Option(help="URL of a cluster's dashboard; default RAY_API_SERVER_ADDRESS."),
]
JobName = Annotated[str | None, typer.Argument(help="A job's id, or the name of its sweep.")]
File = Annotated[str, typer.Argument(help="A sweep file, or the name of a ready-made sweep.")]
DEFAULT_STORAGE = "calsweep-store"


def _complete_name(context: typer.Context, incomplete: str) -> list[str]:
    """The names of the sweeps in the storage, for the shell."""
    from sweeps.store.sweep_store import sweep_names

    storage = context.params.get("storage") or DEFAULT_STORAGE
    with suppress(OSError):  # it cannot be read, which the command itself will tell
        return [name for name in sweep_names(storage) if name.startswith(incomplete)]
    return []


SweepName = Annotated[
    str, typer.Argument(help="Name of a sweep in the storage.", autocompletion=_complete_name)
]
SweepNames = Annotated[
    list[str],
    typer.Argument(help="Names of sweeps in the storage.", autocompletion=_complete_name),
]


class Format(StrEnum):
    """How ``calsweep best`` prints."""

    table = "table"
    json = "json"
    yaml = "yaml"


class ReportFormat(StrEnum):
    """What ``calsweep report`` writes."""

    html = "html"
    markdown = "markdown"
    latex = "latex"


def _print_version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        print(f"calsweep {version('calsweep')}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _without_command(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version.", callback=_print_version, is_eager=True
        ),
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        print(context.get_help(), file=sys.stderr)
        raise typer.Exit(2)


@app.command()
def run(
    file: File,
    storage: Storage = DEFAULT_STORAGE,
    address: Address = None,
    overrides: Overrides = None,
    name: NewName = None,
) -> None:
    """Run a sweep here, or on the cluster at --address."""
    from sweeps.runner import run_sweep
    from sweeps.sweep_file.loading import load_sweep

    sweep = load_sweep(file, overrides or (), name)
    result = run_sweep(sweep, storage, address, on_answer=_print_answer)
    _print_places(result, sweep.name, storage)


@app.command()
def resume(
    name: SweepName,
    storage: Storage = DEFAULT_STORAGE,
    address: Address = None,
    overrides: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Another budget: search.max_hours=8."),
    ] = None,
) -> None:
    """Go on with a sweep that was cut off; with a URL as --address, as a job of that cluster."""
    if address is not None and address.startswith(("http://", "https://")):
        from sweeps.cluster.jobs import submit_resume

        _print_job(*submit_resume(name, storage, address, overrides or ()))
        return
    from sweeps.runner import resume_sweep

    result = resume_sweep(name, storage, address, None, _print_answer, overrides or ())
    _print_places(result, name, storage)


@app.command()
def submit(
    file: File,
    storage: Storage = DEFAULT_STORAGE,
    address: Url = None,
    overrides: Overrides = None,
    name: NewName = None,
) -> None:
    """Hand a sweep to a Ray cluster as a job; the last line printed is the job's id."""
    from sweeps.cluster.jobs import submit as submit_job
    from sweeps.sweep_file.loading import load_sweep

    sweep = load_sweep(file, overrides or (), name)
    _print_job(*submit_job(sweep, storage, address))


@app.command()
def status(job: JobName = None, address: Url = None) -> None:
    """List the sweeps that were handed to a Ray cluster, or say how one of them is doing."""
    from sweeps.cluster import jobs
    from sweeps.terminal.console import plain_console
    from sweeps.terminal.job_tables import job_facts, jobs_table

    console = plain_console()
    if job is not None:
        found = jobs.find_job(job, address)
        console.print(job_facts(found, *jobs.progress(found, address)))
    elif every := jobs.list_jobs(address):
        console.print(jobs_table(every))
    else:
        print("no sweep was handed to this cluster")


@app.command()
def logs(
    job: Annotated[str, typer.Argument(help="A job's id, or the name of its sweep.")],
    address: Url = None,
    follow: Annotated[bool, typer.Option("--follow", help="Go on until the job ends.")] = False,
) -> None:
    """Print what a job has printed."""
    from sweeps.cluster import jobs

    for piece in jobs.logs(jobs.find_job(job, address), address, follow):
        print(piece, end="", flush=True)
    if follow and (now := jobs.find_job(job, address)).state == "FAILED":
        raise SweepFailedError(f"job {now.id} failed: {now.message}")


@app.command()
def stop(
    job: Annotated[str, typer.Argument(help="A job's id, or the name of its sweep.")],
    address: Url = None,
) -> None:
    """Stop a job, in order; its sweep can be resumed."""
    from sweeps.cluster import jobs
    from sweeps.cluster.job_client import dashboard_url

    ended = jobs.stop(jobs.find_job(job, address), address)
    print(f"{ended.id}: {ended.state}")
    if ended.state == "STOPPED":
        place = redact(f"--storage {ended.storage} --address {dashboard_url(address)}")
        print(f"`calsweep resume {ended.sweep} {place}` goes on")


@app.command()
def check(
    file: File,
    overrides: Overrides = None,
    name: NewName = None,
    no_data: Annotated[
        bool, typer.Option("--no-data", help="Do not load the data, which may take a while.")
    ] = False,
) -> None:
    """Read a sweep file and its data and print the plan; start nothing."""
    from sweeps.planning.checks import check_sweep
    from sweeps.sweep_file.loading import load_sweep
    from sweeps.terminal.console import plain_console
    from sweeps.terminal.plan_tables import plan_tables

    sweep = load_sweep(file, overrides or (), name)
    check_sweep(sweep)
    of_data = {} if no_data else _facts_of_data(sweep)
    plain_console().print(*plan_tables(sweep, of_data), sep="\n")


def _facts_of_data(sweep: SweepFile) -> dict[str, str]:
    from sweeps.planning.data import load_data
    from sweeps.planning.data_facts import data_facts
    from sweeps.planning.data_fit import fit_to_data
    from sweeps.sweep_file.schema import OWN_DATA

    if sweep.dataset.name == OWN_DATA:
        return {"data": f"read by the loop: {sweep.dataset.options['num_classes']} classes"}
    try:
        dataset = load_data(sweep)
    except UserError as error:  # they may lie on the cluster alone
        return {"data": f"not looked at, as they cannot be loaded here: {error}"}
    return data_facts(fit_to_data(sweep, dataset), dataset)


@app.command()
def show(name: SweepName, storage: Storage = DEFAULT_STORAGE) -> None:
    """Print a sweep's answer once more, or what is known of it so far."""
    from sweeps.looking import read_answer

    answer, finished = read_answer(name, storage)
    _print_answer(answer)
    if not finished:
        print(f"\nnot finished; `calsweep resume {name}` goes on where it was cut off")


@app.command("list")
def list_sweeps(storage: Storage = DEFAULT_STORAGE) -> None:
    """List the sweeps of a storage: how far each is, and what is best so far."""
    from sweeps.looking import overviews
    from sweeps.terminal.answers import overview_table

    found = overviews(storage)
    _print(overview_table(found) if found else f"no sweep in {redact(storage)} yet")


@app.command()
def compare(names: SweepNames, storage: Storage = DEFAULT_STORAGE) -> None:
    """Show what several sweeps chose, and the best setting of each loss in each of them."""
    from sweeps.looking import side_by_side
    from sweeps.terminal.answers import side_by_side_tables

    first, second = side_by_side_tables(side_by_side(names, storage))
    _print(first)
    print()
    _print(second)


@app.command()
def watch(name: SweepName, storage: Storage = DEFAULT_STORAGE) -> None:
    """Follow a sweep that runs elsewhere until it has come to its answer (Ctrl-C ends the view)."""
    from sweeps.looking import look_at, read_answer
    from sweeps.terminal.console import plain_console
    from sweeps.terminal.watching import watch as follow

    follow(lambda: look_at(name, storage), plain_console())
    _print_answer(read_answer(name, storage)[0])


@app.command()
def init(
    file: Annotated[str | None, typer.Argument(help="The file; default <NAME>.yaml.")] = None,
    data: Annotated[
        str | None,
        typer.Option(
            help="Your data, a folder or file, or the name of a dataset; asked if left out."
        ),
    ] = None,
    name: NewName = None,
    trials: Annotated[
        int | None, typer.Option(min=1, help="How many settings to try; asked if left out.")
    ] = None,
) -> None:
    """Write a commented sweep file that fits your data, to begin with."""
    from sweeps.looking import write_new_sweep_file
    from sweeps.planning.draft import draft_for

    asked = data is None
    if data is None:
        data = typer.prompt(
            "Your data: a folder or file, or a name that `calsweep datasets` lists",
            default="digits",
        )
    draft = draft_for(data)
    if asked:
        print(draft.seen)
        name = name or typer.prompt("Name of the sweep", default=draft.name)
        trials = trials or typer.prompt("How many settings to try", default=40, type=int)
    name = name or draft.name
    path = write_new_sweep_file(draft, name, trials or 40, file or f"{name}.yaml")
    print(f"written: {path}")
    print(f"`calsweep check {path}` prints the plan, `calsweep run {path}` starts it")


@app.command()
def delete(
    name: SweepName,
    storage: Storage = DEFAULT_STORAGE,
    checkpoints: Annotated[
        bool, typer.Option("--checkpoints", help="Delete the checkpoints alone.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Delete a sweep from the storage; what MLflow has of it stays."""
    from sweeps.upkeep import delete_sweep

    what = "the checkpoints of sweep" if checkpoints else "sweep"
    if not yes:
        typer.confirm(f"delete {what} {name!r} in {redact(storage)}?", abort=True)
    delete_sweep(name, storage, checkpoints)
    print(f"deleted: {what} {name}")


@app.command()
def best(
    storage: Storage = DEFAULT_STORAGE,
    dataset: Annotated[str | None, typer.Option(help="Only this dataset.")] = None,
    model: Annotated[str | None, typer.Option(help="Only this model.")] = None,
    objective: Annotated[str | None, typer.Option(help="Only sweeps that minimised this.")] = None,
    output: Annotated[Format, typer.Option("--format", help="How to print it.")] = Format.table,
) -> None:
    """Print the best hyperparameters per dataset and model, of all sweeps in storage or MLflow."""
    from sweeps.looking import find_best
    from sweeps.terminal.answers import render_best

    found = find_best(storage, dataset, model, objective)
    render_best(found.entries, output.value, found.read_sweep_file)


@app.command()
def report(
    names: SweepNames,
    storage: Storage = DEFAULT_STORAGE,
    compare: Annotated[
        bool, typer.Option("--compare", help="One page that compares several sweeps.")
    ] = False,
    output: Annotated[
        str | None,
        typer.Option(
            help="The file; default <NAME>-report.html or comparison.html; a table is printed."
        ),
    ] = None,
    form: Annotated[
        ReportFormat,
        typer.Option("--format", help="A page, or the papers' table for an article."),
    ] = ReportFormat.html,
) -> None:
    """Write one HTML file that shows what a sweep found, or print the papers' table of it."""
    from sweeps.looking import paper_table_of, write_report, write_side_by_side, write_text

    if compare and form is not ReportFormat.html:
        raise UserError(f"--format {form.value}: with --compare only html is allowed")
    if compare:
        print(f"written: {write_side_by_side(names, storage, output)}")
        return
    if len(names) > 1:
        raise UserError(
            f"{' '.join(names)}: one report is of one sweep; `calsweep report --compare "
            f"{' '.join(names)}` writes one page of several"
        )
    (name,) = names
    if form is ReportFormat.html:
        print(f"written: {write_report(name, storage, output)}")
        return
    latex = form is ReportFormat.latex
    table = paper_table_of(name, storage, "latex" if latex else "markdown")
    if output is None:
        print(table, end="")
    else:
        print(f"written: {write_text(table, output)}")


@app.command()
def export(
    name: SweepName,
    storage: Storage = DEFAULT_STORAGE,
    output: Annotated[str | None, typer.Option(help="The folder; default <NAME>-model.")] = None,
    register: Annotated[
        bool,
        typer.Option(
            "--register",
            help="Register it in MLflow instead, as champion, and the runner-up as challenger.",
        ),
    ] = False,
    onnx: Annotated[bool, typer.Option("--onnx", help="Add model.onnx, for ONNX Runtime.")] = False,
) -> None:
    """Write the chosen classifier to a folder: calibrated, and usable with PyTorch alone."""
    from sweeps.exporting import export_model, reads_files, register_models

    if register and onnx:
        raise UserError("--onnx: with --register it is not allowed; MLflow gets PyTorch's program")
    if register:
        for address in register_models(name, storage):
            print(f"registered: {address}")
        return
    folder, label = export_model(name, storage, output, onnx)
    print(f"written: {folder} ({label})")
    if reads_files(folder):
        print(f"`calsweep predict {shlex.quote(folder)} FILE` says what it makes of new samples")


@app.command()
def predict(
    model: Annotated[str, typer.Argument(help="A folder that `calsweep export` has written.")],
    data: Annotated[
        str,
        typer.Argument(
            help="An image or a folder of them, .npy; .csv or .parquet, as in training."
        ),
    ],
    output: Annotated[str | None, typer.Option(help="The file; printed if left out.")] = None,
) -> None:
    """Print class and calibrated probabilities of new samples, as CSV."""
    import io

    from sweeps.exporting import predict as write_predictions
    from sweeps.looking import write_text

    table = io.StringIO(newline="")
    count = write_predictions(model, data, table)
    if output is None:
        print(table.getvalue(), end="")
    else:
        print(f"written: {write_text(table.getvalue(), output)} ({counted(count, 'sample')})")


@app.command()
def sync(name: SweepName, storage: Storage = DEFAULT_STORAGE) -> None:
    """Bring MLflow up to date with a sweep that ran while it did not answer."""
    from sweeps.terminal.console import plain_console
    from sweeps.terminal.progress import Progress
    from sweeps.upkeep import sync_sweep

    with Progress(plain_console()) as progress:
        done = sync_sweep(
            name,
            storage,
            lambda left: progress.left(f"Writing to MLflow, {counted(left, 'trial')} left"),
        )
    print(f"MLflow is up to date: {counted(done.trials, 'trial')} of {name}")
    if done.deleted:
        print(
            f"the runs of {done.deleted} of them were deleted in MLflow, and stay so until they "
            "are restored there"
        )


@app.command()
def ui(
    storage: Storage = DEFAULT_STORAGE,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port to listen on.")] = 5000,
) -> None:
    """Open the MLflow UI on this project's store (Ctrl-C ends it); of a server print the links."""
    from sweeps.tracking.server import serve

    serve(storage, host, port)


@app.command()
def losses(
    markdown: Annotated[bool, typer.Option("--markdown", help="As a Markdown table.")] = False,
) -> None:
    """List the losses with their hyperparameters, ranges and sources."""
    from sweeps.terminal.catalogue import losses_markdown, losses_table

    _print(losses_markdown() if markdown else losses_table())


@app.command()
def metrics() -> None:
    """List the metrics: what each is, and which way is better."""
    from sweeps.terminal.catalogue import metrics_table

    _print(metrics_table())


@app.command()
def datasets() -> None:
    """List the datasets and their options."""
    from sweeps.terminal.catalogue import datasets_table

    _print(datasets_table())


@app.command()
def recipes() -> None:
    """List the papers' experiments that come as sweep files: calsweep run recipes/NAME."""
    from sweeps.terminal.catalogue import recipes_table

    _print(recipes_table())


@app.command()
def models() -> None:
    """List the models and their options."""
    from sweeps.terminal.catalogue import models_table

    _print(models_table())


def _print(what: object) -> None:
    from sweeps.terminal.console import plain_console

    if isinstance(what, str):
        print(what)
    else:
        plain_console().print(what)


def _print_job(job: str, sent: Shipment) -> None:
    count, kilobytes = len(sent.modules), math.ceil(sent.size / 1000)
    print(
        f"sent: the sweep, calsweep {sent.version}, and of this folder {count} Python modules",
        end="",
    )
    if count:
        more = f" and {count - 8} more" if count > 8 else ""
        print(f", {kilobytes} KB: {', '.join(sent.modules[:8])}{more}", end="")
    print("; nothing else")
    print(f"`calsweep logs {job} --follow` shows how it goes")
    print(job)


def _tracking_told(uri: str, storage: str) -> str:
    """What tells a command where MLflow is that only the sweep file names."""
    from sweeps.tracking.address import tracking_uri

    with suppress(UserError):  # a remote storage says nothing of MLflow
        if tracking_uri(storage) == uri:
            return ""
    return f"MLFLOW_TRACKING_URI={uri} "


def _print_answer(answer: dict[str, Any]) -> None:
    from sweeps.terminal.answers import leaderboard_table
    from sweeps.terminal.console import plain_console

    console = plain_console()
    console.print()
    console.print(leaderboard_table(answer["rows"], answer["objective"]))
    console.print()
    for line in answer["why"]:
        console.print(redact(line))
    console.file.flush()  # it comes before MLflow is written, which may take long


def _print_places(result: SweepResult, name: str, storage: str) -> None:
    from sweeps.terminal.console import plain_console

    console = plain_console()
    where = "" if storage == DEFAULT_STORAGE else redact(f" --storage {shlex.quote(storage)}")
    told = redact(_tracking_told(result.tracking_uri, storage))
    console.print(
        f"\n  browse the runs   {told}calsweep ui{where}"
        f"\n  best per dataset  {told}calsweep best{where}"
        f"\n  report            calsweep report {name}{where}",
        soft_wrap=True,
    )
    if result.fault is not None:
        lacking = (
            f"lacks {counted(result.unsynced, 'trial')}" if result.unsynced else "is not up to date"
        )
        console.print(
            f"\nMLflow {lacking}: {redact(result.fault)}\nThe sweep store has all of it; "
            f"`calsweep sync {name}{where}` tries again and says what is wrong.",
            soft_wrap=True,
        )


def main() -> None:
    """Run the command and turn what went wrong into a message and an exit code."""
    redact_what_python_prints()
    print_what_they_can((sys.stdout, sys.stderr))
    if is_driver_of_a_job():
        from sweeps.cluster.shipping import keep_what_was_sent

        keep_what_was_sent()
    try:
        sys.exit(app(standalone_mode=False))
    except UserError as error:
        _fail(str(error), 2)
    except SweepFailedError as error:
        _fail(str(error), 1)
    except SweepInterruptedError as error:
        _fail(str(error), 130)
    except KeyboardInterrupt:
        _fail("interrupted", 130)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except typer.Abort:
        _fail("aborted", 130)
    except Exception as error:
        if hasattr(error, "format_message"):  # typer's own complaints about the command line
            _fail(error.format_message(), 2)
        print_traceback(error)
        sys.exit(1)


def _fail(message: str, code: int) -> None:
    for line in redact(message).splitlines():
        prefix = "" if line.startswith(" ") else "calsweep: "
        print(f"{prefix}{line}", file=sys.stderr)
    sys.exit(code)


if __name__ == "__main__":
    main()
