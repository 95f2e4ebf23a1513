"""The ``calsweep`` command: parse, call, print. Heavy imports are inside the commands."""

from __future__ import annotations

import os
import shlex
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from sweeps.cluster.ray_internals import is_driver_of_a_job
from sweeps.errors import SweepFailedError, SweepInterruptedError, UserError
from sweeps.messages.formatting import (
    DEFAULT_STORAGE,
    calsweep_command,
    counted,
    finite,
    resume_command,
    storage_option,
)
from sweeps.messages.redaction import print_traceback, redact, redact_what_python_prints
from sweeps.terminal.encoding import print_what_they_can
from sweeps.terminal.lasting import discard_unwritable

if TYPE_CHECKING:
    from sweeps.results.result import SweepResult
    from sweeps.search.plan import Plan
    from sweeps.service.running import EndedSweep
    from sweeps.sweep_file.schema import SweepFile

RUN, INSPECT, SELECT = "Run a sweep", "Inspect sweeps", "Select a setting"
USE, AVAILABLE, CLUSTER = "Use the result", "List what is available", "Jobs on a Ray cluster"


class _GroupedHelp(typer.core.TyperGroup):
    """Lists the commands in ``--help`` under the heading of their group."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        groups: dict[str, list[tuple[str, str]]] = {
            heading: [] for heading in (RUN, INSPECT, SELECT, USE, CLUSTER, AVAILABLE)
        }
        for name, command in self.commands.items():
            if not command.hidden:
                row = (name, command.get_short_help_str(limit=100))
                groups[getattr(command, "rich_help_panel", None) or AVAILABLE].append(row)
        for heading, rows in groups.items():
            with formatter.section(heading):
                formatter.write_dl(rows)


app = typer.Typer(
    name="calsweep",
    cls=_GroupedHelp,
    help="Find the loss and hyperparameters that calibrate a classifier's confidence.",
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

Storage = Annotated[
    str,
    typer.Option(
        envvar="CALSWEEP_STORAGE",
        metavar="PATH_OR_URI",
        help="Where sweeps, checkpoints and the MLflow database are stored.",
    ),
]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Override one value, e.g. training.epochs=5."),
]
NewName = Annotated[str | None, typer.Option("--name", help="Name of the sweep.")]
Compared = Annotated[
    str | None,
    typer.Option(
        "--compare", metavar="LOSS,LOSS", help="Search these losses and compare them in pairs."
    ),
]
FreshSeeds = Annotated[
    int | None,
    typer.Option("--seeds", help="Fresh seeds of each finalist: selection.seeds."),
]
Address = Annotated[str | None, typer.Option(help="A Ray cluster, host:port or 'auto'.")]
OrResume = Annotated[
    bool, typer.Option("--or-resume", help="Resume the sweep if it exists, otherwise start it.")
]
Debug = Annotated[
    bool,
    typer.Option(
        "--debug", help="Train in this process, without Ray: breakpoints and tracebacks work."
    ),
]
Url = Annotated[
    str | None,
    typer.Option(help="URL of a cluster's dashboard; default RAY_API_SERVER_ADDRESS."),
]
_JOB = typer.Argument(help="A job's id, or the name of its sweep.")
JobName = Annotated[str, _JOB]
File = Annotated[str, typer.Argument(help="A sweep file, or the name of a ready-made sweep.")]
JUDGEMENT = "judgement.html"


def _complete_name(context: typer.Context, incomplete: str) -> list[str]:
    """The names of the sweeps in the storage, for the shell."""
    from sweeps.store.sweep_store import sweep_names

    storage = context.params.get("storage") or DEFAULT_STORAGE
    with suppress(OSError):  # the command itself reports an unreadable storage
        return [name for name in sweep_names(storage) if name.startswith(incomplete)]
    return []


SweepName = Annotated[
    str, typer.Argument(help="Name of a sweep in the storage.", autocompletion=_complete_name)
]
SweepNames = Annotated[
    list[str],
    typer.Argument(help="Names of sweeps in the storage.", autocompletion=_complete_name),
]


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


@app.command(rich_help_panel=RUN)
def run(
    file: File,
    storage: Storage = DEFAULT_STORAGE,
    address: Address = None,
    overrides: Overrides = None,
    name: NewName = None,
    compare: Compared = None,
    seeds: FreshSeeds = None,
    or_resume: OrResume = False,
    debug: Debug = False,
    detach: Annotated[
        bool, typer.Option("--detach", help="Run it in the background, and return at once.")
    ] = False,
) -> None:
    """Run a sweep on this machine, or on the Ray cluster at --address."""
    from sweeps.planning.compared_losses import with_comparison
    from sweeps.service.running import run_or_resume, run_sweep
    from sweeps.sweep_file.loading import load_sweep

    sweep = with_comparison(load_sweep(file, overrides or (), name), compare, seeds)
    if detach:
        if debug:
            raise UserError("--detach: with --debug it is not allowed; leave one of them out")
        _detach(sweep.name, storage)
        return
    begin = run_or_resume if or_resume else run_sweep
    result = begin(sweep, storage, address=address, debug=debug, on_answer=_print_result)
    _print_places(result, sweep.name, storage)


def _detach(name: str, storage: str) -> None:
    """Run this command again in the background, without the option."""
    from sweeps.service.background import start_detached

    print(f"Starting {name} in the background ...", file=sys.stderr)
    arguments = [argument for argument in sys.argv[1:] if argument != "--detach"]
    begun = start_detached(name, storage, arguments)
    where = redact(storage_option(storage))
    print(
        f"{name} runs in the background, as process {begun.pid}\n"
        f"  progress  calsweep watch {name}{where}\n"
        f"  stop      calsweep stop {name}{where}\n"
        f"  log       {begun.log}"
    )


@app.command(rich_help_panel=RUN)
def resume(
    name: SweepName,
    storage: Storage = DEFAULT_STORAGE,
    address: Address = None,
    overrides: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="Change a budget, e.g. search.max_hours=8."
        ),
    ] = None,
    debug: Debug = False,
) -> None:
    """Continue an interrupted sweep; finished trials are not run again.

    With a URL as --address it continues as a job on that cluster.
    """
    if address is not None and address.startswith(("http://", "https://")):
        from sweeps.jobs.jobs import submit_resume

        _print_job(submit_resume(name, storage, address, overrides or (), _print_notice), address)
        return
    from sweeps.service.running import resume_sweep

    result = resume_sweep(
        name, storage, overrides or (), address=address, debug=debug, on_answer=_print_result
    )
    _print_places(result, name, storage)


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
    job = submit_job(sweep, storage, address, _print_notice, or_resume)
    _print_job(job, address, sweep.tracking.uri or os.environ.get("MLFLOW_TRACKING_URI"))
    if follow:
        _follow(job, address)


@app.command(rich_help_panel=CLUSTER)
def status(job: Annotated[str | None, _JOB] = None, address: Url = None) -> None:
    """List the jobs on a Ray cluster, or show the state of one."""
    from sweeps.jobs import jobs
    from sweeps.jobs.client import job_page
    from sweeps.jobs.tables import job_facts, jobs_table
    from sweeps.terminal.console import plain_console

    console = plain_console()
    if job is not None:
        found = jobs.find_job(job, address)
        page = job_page(found.id, address)
        console.print(job_facts(found, jobs.said_by(found, address), page))
    elif every := jobs.list_jobs(address):
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

    for piece in jobs.logs(jobs.find_job(job, address), address, True, _print_notice):
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
        from sweeps.store.sweep_store import is_name

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


@app.command(rich_help_panel=RUN)
def check(
    file: File,
    storage: Storage = DEFAULT_STORAGE,
    overrides: Overrides = None,
    name: NewName = None,
    compare: Compared = None,
    seeds: FreshSeeds = None,
    no_data: Annotated[
        bool,
        typer.Option(
            "--no-data", help="Read the sweep file alone, neither the data nor the storage."
        ),
    ] = False,
    gpu: Annotated[
        str | None,
        typer.Option(
            "--gpu", metavar="CARD", help="Estimate memory and time on a card, such as h100."
        ),
    ] = None,
) -> None:
    """Read a sweep file and its data and print the plan, without running."""
    from sweeps.planning.checks import check_sweep
    from sweeps.planning.compared_losses import with_comparison
    from sweeps.search.plan import Plan
    from sweeps.sweep_file.loading import load_sweep
    from sweeps.sweep_file.schema import OWN_DATA
    from sweeps.terminal.console import plain_console
    from sweeps.terminal.plan_tables import plan_tables

    sweep = with_comparison(load_sweep(file, overrides or (), name), compare, seeds)
    check_sweep(sweep)
    if gpu is not None and (no_data or sweep.dataset.name == OWN_DATA):
        raise UserError(f"--gpu {gpu} needs data that calsweep reads; leave it out")
    earlier = {} if no_data else _facts_of_earlier(sweep, storage)
    plan, of_data = (Plan(sweep), {}) if no_data else _facts_of_data(sweep, gpu, storage)
    plain_console().print(*plan_tables(plan, of_data | earlier), sep="\n")


def _facts_of_earlier(sweep: SweepFile, storage: str) -> dict[str, str]:
    """What the sweep learns from others; UserError if there are none of these names."""
    if not sweep.search.warm_start:
        return {}
    from sweeps.search.warm_start import earlier_trials
    from sweeps.store.warm_starts import sweeps_to_learn_from

    trials = earlier_trials(sweep, sweeps_to_learn_from(sweep, storage))
    return {"warm start": counted(len(trials), "suitable trial")}


def _facts_of_data(sweep: SweepFile, gpu: str | None, storage: str) -> tuple[Plan, dict[str, str]]:
    from sweeps.planning.data import load_data
    from sweeps.planning.data_facts import data_facts, duration_facts
    from sweeps.planning.data_fit import fit_to_data
    from sweeps.planning.model_facts import model_facts
    from sweeps.search.plan import Plan
    from sweeps.sweep_file.schema import OWN_DATA

    if sweep.dataset.name == OWN_DATA:
        classes = sweep.dataset.options["num_classes"]
        return Plan(sweep), {"data": f"read by the loop: {classes} classes"}
    try:
        dataset = load_data(sweep)
    except UserError as error:
        raise UserError(
            f"{error}\nIf the data are only on the cluster, `calsweep check --no-data` checks the "
            "rest."
        ) from None
    plan = Plan(fit_to_data(sweep, dataset))
    if gpu is not None:
        from sweeps.planning.cards import card_facts

        return plan, data_facts(plan, dataset) | card_facts(gpu, plan, dataset)
    facts = data_facts(plan, dataset) | model_facts(plan.sweep, dataset)
    if sweep.search.warm_start:
        from sweeps.store.warm_starts import on_other_data

        if lines := on_other_data(sweep, dataset.digest(), storage):
            facts["other data"] = "\n".join(lines)
    return plan, facts | duration_facts(plan, dataset)


@app.command(rich_help_panel=INSPECT)
def show(
    name: SweepName,
    storage: Storage = DEFAULT_STORAGE,
    whole: Annotated[
        bool, typer.Option("--all", help="Also all losses, all verdicts, and the reasons.")
    ] = False,
) -> None:
    """Print the result of a sweep, or its state so far."""
    _show(name, storage, whole)


def _show(name: str, storage: str, whole: bool = False) -> None:
    from sweeps.service.reading import read_answer, read_pilot, read_state

    finished = False
    if (pilot := read_pilot(name, storage)) is not None:
        print(pilot)
    else:
        answer, finished = read_answer(name, storage)
        _print_answer(answer, whole=whole)
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
) -> None:
    """List the sweeps in the storage, with progress and best setting."""
    if address is not None:
        from sweeps.jobs.occupancy import sweeps_on
        from sweeps.jobs.tables import occupancy_table

        there = sweeps_on(address)
        _print(occupancy_table(there) if there else "no sweep runs or waits on this cluster")
        return
    from sweeps.service.reading import overviews
    from sweeps.terminal.answers import overview_table

    found = overviews(storage)
    _print(overview_table(found) if found else f"no sweep in {redact(storage)} yet")


@app.command(rich_help_panel=SELECT)
def compare(names: SweepNames, storage: Storage = DEFAULT_STORAGE) -> None:
    """Compare the selected settings of several sweeps, loss by loss."""
    from sweeps.service.reading import side_by_side
    from sweeps.terminal.answers import side_by_side_tables

    first, second = side_by_side_tables(side_by_side(names, storage))
    _print(first)
    print()
    _print(second)


@app.command(rich_help_panel=INSPECT)
def watch(name: SweepName, storage: Storage = DEFAULT_STORAGE) -> None:
    """Follow a running sweep until it ends, and print its result.

    Ctrl-C ends the view, not the sweep.
    """
    from sweeps.service.reading import look_at
    from sweeps.terminal.console import plain_console
    from sweeps.terminal.watching import watch as follow

    follow(lambda: look_at(name, storage), plain_console())
    _show(name, storage)


@app.command(rich_help_panel=RUN)
def init(
    file: Annotated[str | None, typer.Argument(help="The file; default <NAME>.yaml.")] = None,
    data: Annotated[
        str | None,
        typer.Option(
            help="Your data: a folder, a file, or the name of a dataset; asked for if omitted."
        ),
    ] = None,
    name: NewName = None,
    trials: Annotated[
        int | None, typer.Option(min=1, help="Number of trials; asked for if omitted.")
    ] = None,
    slurm: Annotated[
        bool, typer.Option("--slurm", help="Also write a batch script for Slurm (docs/slurm.md).")
    ] = False,
) -> None:
    """Write a commented sweep file that fits your data."""
    from sweeps.drafting.draft import draft_for
    from sweeps.service.reading import write_batch_script, write_new_sweep_file
    from sweeps.sweep_file.sections.search import GUIDED_TRIALS

    def write_script(file: str) -> None:
        script = write_batch_script(file)
        print(f"written: {script}")
        print(f"`sbatch {shlex.quote(script)}` queues it, once the lines marked CHANGE fit")

    if slurm and file is not None and os.path.exists(file):
        write_script(file)
        return
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
        trials = trials or typer.prompt("How many settings to try", default=GUIDED_TRIALS, type=int)
    name = name or draft.name
    path = write_new_sweep_file(draft, name, trials or GUIDED_TRIALS, file or f"{name}.yaml")
    print(f"written: {path}")
    quoted = shlex.quote(path)
    print(f"`calsweep check {quoted}` prints the plan, `calsweep run {quoted}` starts it")
    if slurm:
        write_script(path)


@app.command(rich_help_panel=INSPECT)
def delete(
    name: SweepName,
    storage: Storage = DEFAULT_STORAGE,
    checkpoints: Annotated[
        bool, typer.Option("--checkpoints", help="Delete only the checkpoints.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
) -> None:
    """Delete a sweep from the storage; its runs in MLflow stay."""
    from sweeps.service.upkeep import delete_sweep

    what = "the checkpoints of sweep" if checkpoints else "sweep"
    if not yes:
        typer.confirm(f"delete {what} {name!r} in {redact(storage)}?", abort=True)
    delete_sweep(name, storage, checkpoints)
    print(f"deleted: {what} {name}")


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
    from sweeps.service.reading import find_best
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
            help="The file; default <NAME>-report.html or comparison.html; a table is printed; "
            "figures are written to a folder, by default <NAME>-figures."
        ),
    ] = None,
    form: Annotated[
        Literal["html", "markdown", "latex", "pdf", "svg"],
        typer.Option("--format", help="An HTML page, or a table or figures for a paper."),
    ] = "html",
) -> None:
    """Write an HTML report, or a table or figures for a paper."""
    from sweeps.service.reading import (
        paper_table_of,
        write_figures,
        write_report,
        write_side_by_side,
        write_text,
    )

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
    match form:
        case "html":
            print(f"written: {write_report(name, storage, output)}")
        case "pdf" | "svg":
            for path in write_figures(name, storage, form, output):
                print(f"written: {path}")
        case "markdown" | "latex":
            table = paper_table_of(name, storage, form)
            print(table if output is None else f"written: {write_text(table, output)}\n", end="")


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
    """Print one table of several sweeps for a paper."""
    from sweeps.service.reading import results_table_of, write_text

    text = results_table_of(names, storage, rows, columns, metrics, form)
    if output is None:
        print(text, end="")
    else:
        print(f"written: {write_text(text, output)}")


@app.command(rich_help_panel=USE)
def judge(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE...",
            help="npz, npy, CSV or Parquet with predictions and labels; several are compared.",
        ),
    ],
    logits: Annotated[
        bool, typer.Option("--logits", help="The values are logits, not probabilities.")
    ] = False,
    labels: Annotated[
        str | None, typer.Option(help="A file of labels, for files without labels.")
    ] = None,
    label: Annotated[str | None, typer.Option(help="Key or column of the labels.")] = None,
    scores: Annotated[
        str | None,
        typer.Option(metavar="NAME,NAME,…", help="Key or columns of the scores of the classes."),
    ] = None,
    predicted: Annotated[
        str | None, typer.Option(help="Key or column of the predicted class.")
    ] = None,
    confidence: Annotated[
        str | None, typer.Option(help="Key or column of the predicted class's probability.")
    ] = None,
    ignore_label: Annotated[
        str | None, typer.Option(help="Leave out samples with this label, such as -100.")
    ] = None,
    group: Annotated[
        str | None, typer.Option(help="Key or column of groups, which are judged separately.")
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option(
            help="Key or column of customers, patients … with several rows each: intervals take "
            "them as the unit."
        ),
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="Key or column that names the model; default model.")
    ] = None,
    output: Annotated[
        str | None, typer.Option(help="The file; default judgement.html for html, else printed.")
    ] = None,
    form: Annotated[
        Literal["table", "json", "html"], typer.Option("--format", help="How to print it.")
    ] = "table",
) -> None:
    """Judge the calibration of predictions that already exist."""
    from sweeps.judging.judgement import judge as judge_models
    from sweeps.judging.reading import Asked, read_predictions

    asked = Asked(
        logits=logits,
        labels=labels,
        label=label,
        scores=tuple(scores.split(",")) if scores else (),
        predicted=predicted,
        confidence=confidence,
        group=group,
        cluster=cluster,
        model=model,
        ignore_label=ignore_label,
    )
    models = read_predictions(files, asked)
    found = judge_models(models)
    if form == "html":
        from sweeps.pages.judgement import render_judgement

        text, output = render_judgement(found, models), output or JUDGEMENT
    else:
        text = _judgement_text(found, form == "json")
    if output is None:
        print(text, end="")
    else:
        from sweeps.service.reading import write_text

        print(f"written: {write_text(text, output)}")


def _judgement_text(found: dict[str, Any], as_json: bool) -> str:
    import io
    import json
    import shutil

    if as_json:
        return json.dumps(finite(found), indent=1) + "\n"
    from sweeps.terminal.console import plain_console
    from sweeps.terminal.judgement import print_judgement

    text = io.StringIO()
    width = max(100, shutil.get_terminal_size().columns)
    print_judgement(found, plain_console(width=width, file=text))
    return redact(text.getvalue())


@app.command(rich_help_panel=USE)
def export(
    name: SweepName,
    storage: Storage = DEFAULT_STORAGE,
    output: Annotated[str | None, typer.Option(help="The folder; default <NAME>-model.")] = None,
    register: Annotated[
        bool,
        typer.Option(
            "--register",
            help="Register it in MLflow instead; it becomes champion if the evidence allows.",
        ),
    ] = False,
    onnx: Annotated[bool, typer.Option("--onnx", help="Add model.onnx, for ONNX Runtime.")] = False,
    selected: Annotated[
        bool, typer.Option("--selected", help="Write the selected setting instead.")
    ] = False,
    loss: Annotated[
        str | None, typer.Option(help="Write the best setting of this loss instead.")
    ] = None,
    trial: Annotated[
        int | None, typer.Option(help="Write the network of this trial instead.")
    ] = None,
    ensemble: Annotated[
        bool, typer.Option("--ensemble", help="Write the ensemble of the sweep's networks instead.")
    ] = False,
) -> None:
    """Export the recommended classifier, calibrated, for PyTorch or ONNX."""
    from sweeps.service.delivered import RECOMMENDED, Wanted
    from sweeps.service.exporting import export_model, reads_files
    from sweeps.service.registering import register as register_model

    wanted = Wanted(selected, loss, trial, ensemble)
    if register and wanted != RECOMMENDED:
        raise UserError(
            f"{wanted}: with --register it is not allowed; MLflow gets the recommended classifier"
        )
    if register and onnx:
        raise UserError("--onnx: with --register it is not allowed; MLflow gets PyTorch's program")
    if register:
        print(f"registered: {register_model(name, storage)}")
        return
    folder, label = export_model(name, storage, output, onnx, wanted)
    print(f"written: {folder} ({label})")
    if reads_files(folder):
        print(f"`calsweep predict {shlex.quote(folder)} FILE` predicts new samples")


@app.command(rich_help_panel=USE)
def promote(name: SweepName, storage: Storage = DEFAULT_STORAGE) -> None:
    """Make a sweep's recommended classifier the champion in MLflow."""
    from sweeps.service.registering import promote as move_champion

    print(f"promoted: {move_champion(name, storage)}")


@app.command(rich_help_panel=USE)
def predict(
    model: Annotated[str, typer.Argument(help="A folder that `calsweep export` has written.")],
    data: Annotated[
        str,
        typer.Argument(
            help="An image or a folder of them, .npy; .csv or .parquet, as in training."
        ),
    ],
    output: Annotated[str | None, typer.Option(help="The file; printed if omitted.")] = None,
    on_bad_sample: Annotated[
        Literal["error", "skip"],
        typer.Option(help="skip leaves out samples that cannot be read, and lists them."),
    ] = "error",
    coverage: Annotated[
        float | None,
        typer.Option(help="Add prediction sets that contain the true class this often: 0.9."),
    ] = None,
    method: Annotated[
        Literal["lac", "aps", "raps"],
        typer.Option(help="Method of the prediction sets; lac gives the smallest."),
    ] = "lac",
    id_column: Annotated[
        str | None,
        typer.Option("--id", help="A column of the data that names each line of the output."),
    ] = None,
) -> None:
    """Print classes and probabilities of new samples, as CSV."""
    import io

    from sweeps.messages.formatting import shortened
    from sweeps.service.exporting import predict as write_predictions
    from sweeps.service.reading import write_text

    table = io.StringIO(newline="")
    count, notes = write_predictions(model, data, table, on_bad_sample, coverage, method, id_column)
    for note in notes:
        print(shortened(note), file=sys.stderr)
    if output is None:
        print(table.getvalue(), end="")
    else:
        print(f"written: {write_text(table.getvalue(), output)} ({counted(count, 'sample')})")


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


@app.command(rich_help_panel=AVAILABLE)
def losses(
    markdown: Annotated[bool, typer.Option("--markdown", help="As a Markdown table.")] = False,
) -> None:
    """List the losses with their hyperparameters, ranges and sources."""
    from sweeps.terminal.catalogue import losses_markdown, losses_table

    _print(losses_markdown() if markdown else losses_table())


_LISTS = {
    "metrics": "List the metrics and their definitions.",
    "datasets": "List the datasets and their options.",
    "recipes": "List the experiments of papers; run one with `run recipes/NAME`.",
    "models": "List the models and their options.",
}


def _add_list(name: str, help_text: str) -> None:
    def print_list() -> None:
        from sweeps.terminal.catalogue import TABLES

        _print(TABLES[name]())

    app.command(name, help=help_text, rich_help_panel=AVAILABLE)(print_list)


for _name, _help in _LISTS.items():
    _add_list(_name, _help)


def _print(what: object) -> None:
    from sweeps.terminal.console import plain_console

    if isinstance(what, str):
        print(what)
    else:
        plain_console().print(what)


def _print_notice(text: str) -> None:
    print(text, file=sys.stderr)


def _print_job(job: str, address: str | None, tracking: str | None = None) -> None:
    from sweeps.jobs.client import dashboard_url, job_page
    from sweeps.messages.redaction import without_credentials

    place = f"--address {dashboard_url(address)}"
    print(f"  output     calsweep logs {job} --follow {place}")
    print(f"  state      calsweep status {job} {place}")
    print(f"  stop       calsweep stop {job} {place}")
    print(f"  dashboard  {job_page(job, address)}")
    if tracking:
        print(f"  MLflow     {without_credentials(tracking)}")
    print(job)


def _tracking_variable(uri: str, storage: str) -> str:
    """The variable that commands need if only the sweep file names the MLflow server."""
    from sweeps.tracking.address import tracking_uri

    with suppress(UserError):  # a remote storage has no default MLflow address
        if tracking_uri(storage) == uri:
            return ""
    return f"MLFLOW_TRACKING_URI={uri} "


def _print_result(found: SweepResult) -> None:
    """Print the result of a sweep that has just ended, as far as output can be written."""
    _print_answer(found, lasting=True)


def _print_answer(found: SweepResult, lasting: bool = False, whole: bool = False) -> None:
    from sweeps.terminal.answers import print_answer, print_whole_answer
    from sweeps.terminal.console import plain_console

    console = plain_console(lasting=lasting)
    console.print()
    (print_whole_answer if whole else print_answer)(console, found)
    console.file.flush()  # writing to MLflow follows, and may take long


def _leaderboard(result: EndedSweep) -> str:
    """A line with the link to the leaderboard in MLflow; empty if MLflow has not answered."""
    from sweeps.messages.redaction import without_credentials
    from sweeps.tracking.address import is_server
    from sweeps.tracking.view import LOCAL, leaderboard_link

    if result.experiment_id is None:
        return ""
    uri = result.tracking_uri
    address = without_credentials(uri).rstrip("/") if is_server(uri) else LOCAL
    return f"\n  leaderboard       {leaderboard_link(address, result.experiment_id)}"


def _print_places(result: EndedSweep, name: str, storage: str) -> None:
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


def main() -> None:
    """Run the command; turn errors into a message and an exit code."""
    redact_what_python_prints()
    print_what_they_can((sys.stdout, sys.stderr))
    if is_driver_of_a_job():
        from sweeps.jobs.shipping import keep_what_was_sent

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
        discard_unwritable()
        sys.exit(1)
    except typer.Abort:
        _fail("aborted", 130)
    except Exception as error:
        if hasattr(error, "format_message"):  # typer's errors about the command line
            _fail(error.format_message(), 2)
        print_traceback(error)
        sys.exit(1)


def _fail(message: str, code: int) -> None:
    with suppress(OSError):  # the exit code is right without the message
        for line in redact(message).strip("\n").splitlines():
            prefix = "" if line.startswith(" ") else "calsweep: "
            print(f"{prefix}{line}", file=sys.stderr)
    discard_unwritable()
    sys.exit(code)


if __name__ == "__main__":
    main()
