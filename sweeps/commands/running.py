"""Commands that begin, continue and plan a sweep."""

from __future__ import annotations

import os
import shlex
import sys
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from sweeps.commands.app import RUN, app
from sweeps.commands.options import (
    Address,
    Compared,
    Debug,
    File,
    Form,
    FreshSeeds,
    NewName,
    OrResume,
    Overrides,
    Storage,
    SweepName,
)
from sweeps.commands.printing import print_answer, print_job, print_notice, print_places
from sweeps.errors import UserError
from sweeps.messages.formatting import (
    DEFAULT_STORAGE,
    counted,
    number_ranges,
    resume_command,
    storage_option,
)
from sweeps.messages.redaction import redact

if TYPE_CHECKING:
    from sweeps.planning.data_preview import Duration
    from sweeps.search.plan import Plan
    from sweeps.service.controls import Changed
    from sweeps.sweep_file.schema import SweepFile


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
    from sweeps.service.running import run_or_resume, run_sweep
    from sweeps.sweep_file.loading import load_sweep, with_comparison

    sweep = with_comparison(load_sweep(file, overrides or (), name), compare, seeds)
    if detach:
        if debug:
            raise UserError("--detach: with --debug it is not allowed; leave one of them out")
        _detach(sweep.name, storage)
        return
    begin = run_or_resume if or_resume else run_sweep
    on_answer = partial(print_answer, lasting=True)
    result = begin(sweep, storage, address=address, debug=debug, on_answer=on_answer)
    print_places(result, sweep.name, storage)


def _detach(name: str, storage: str) -> None:
    """Run this command again in the background, without the option."""
    from sweeps.service.background import start_detached

    print(f"Starting {name} in the background ...", file=sys.stderr)
    arguments = [argument for argument in sys.argv[1:] if argument != "--detach"]
    process, log = start_detached(name, storage, arguments)
    where = redact(storage_option(storage))
    print(
        f"{name} runs in the background, as process {process}\n"
        f"  progress  calsweep watch {name}{where}\n"
        f"  stop      calsweep stop {name}{where}\n"
        f"  log       {log}"
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

        print_job(submit_resume(name, storage, address, overrides or (), print_notice), address)
        return
    from sweeps.service.running import resume_sweep

    on_answer = partial(print_answer, lasting=True)
    result = resume_sweep(
        name, storage, overrides or (), address=address, debug=debug, on_answer=on_answer
    )
    print_places(result, name, storage)


@app.command(rich_help_panel=RUN)
def drop(
    name: SweepName,
    trials: Annotated[list[int], typer.Argument(help="Numbers of trials.")],
    storage: Storage = DEFAULT_STORAGE,
) -> None:
    """End trials, or leave them out of the result; also while the sweep runs.

    No resume starts them again; `calsweep retry` does.
    """
    from sweeps.service.controls import drop_trials

    _print_changed("dropped", drop_trials(name, storage, trials), name, storage)


@app.command(rich_help_panel=RUN)
def retry(
    name: SweepName,
    trials: Annotated[list[int] | None, typer.Argument(help="Numbers of failed trials.")] = None,
    storage: Storage = DEFAULT_STORAGE,
    failed: Annotated[
        bool, typer.Option("--failed", help="All failed trials that were not dropped.")
    ] = False,
) -> None:
    """Let failed trials continue from their checkpoints, after a fix; also while the sweep runs."""
    from sweeps.service.controls import retry_trials

    if failed == bool(trials):
        raise UserError("give the numbers of trials, or --failed for all failed ones")
    done = retry_trials(name, storage, None if failed else trials)
    _print_changed("to be retried", done, name, storage)


def _print_changed(what: str, done: Changed, name: str, storage: str) -> None:
    print(f"{what}: {counted(len(done.trials), 'trial')} of {name} ({number_ranges(done.trials)})")
    if not done.running:
        print(f"{redact(resume_command(name, storage))} continues the sweep")


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
    form: Form = "table",
) -> None:
    """Read a sweep file and its data and print the plan, without running."""
    from sweeps.messages.documents import document
    from sweeps.planning.checks import check_sweep
    from sweeps.planning.plan_numbers import plan_numbers
    from sweeps.search.plan import Plan
    from sweeps.sweep_file.loading import load_sweep, with_comparison
    from sweeps.terminal.console import plain_console
    from sweeps.terminal.plan_tables import plan_tables

    sweep = with_comparison(load_sweep(file, overrides or (), name), compare, seeds)
    check_sweep(sweep)
    earlier = {} if no_data else _facts_of_earlier(sweep, storage)
    found = _WithData(Plan(sweep)) if no_data else _with_data(sweep, storage)
    if form == "table":
        plain_console().print(*plan_tables(found.plan, found.facts | earlier), sep="\n")
        return
    duration = None if found.duration is None else asdict(found.duration)
    plan = plan_numbers(found.plan)
    print(document("check", plan=plan, data=found.sizes, duration=duration))


@dataclass(frozen=True)
class _WithData:
    """A plan, and what is known of its data: facts in words, sizes, and how long it would take."""

    plan: Plan
    facts: dict[str, str] = field(default_factory=dict)
    sizes: dict[str, int] | None = None
    duration: Duration | None = None


def _facts_of_earlier(sweep: SweepFile, storage: str) -> dict[str, str]:
    """What the sweep learns from others; UserError if there are none of these names."""
    if not sweep.search.named:
        return {}
    from sweeps.search.warm_start import earlier_trials
    from sweeps.store.earlier_sweeps import sweeps_to_learn_from

    found = sweeps_to_learn_from(sweep, storage)
    if sweep.search.is_guided:
        return {}
    trials = earlier_trials(sweep, found)
    return {"warm start": counted(len(trials), "suitable trial")}


def _with_data(sweep: SweepFile, storage: str) -> _WithData:
    from sweeps.planning.data import load_data
    from sweeps.planning.data_fit import fit_to_data
    from sweeps.planning.data_preview import (
        data_facts,
        duration_facts,
        duration_of,
        model_facts,
        sizes_of,
    )
    from sweeps.search.plan import Plan
    from sweeps.sweep_file.sections.data import OWN_DATA

    if sweep.dataset.name == OWN_DATA:
        classes = sweep.dataset.options["num_classes"]
        return _WithData(Plan(sweep), {"data": f"read by the loop: {classes} classes"})
    try:
        dataset = load_data(sweep)
    except UserError as error:
        raise UserError(
            f"{error}\nIf the data are only on the cluster, `calsweep check --no-data` checks the "
            "rest."
        ) from None
    plan = Plan(fit_to_data(sweep, dataset))
    facts = data_facts(plan, dataset) | model_facts(plan.sweep, dataset)
    if sweep.search.named and not sweep.search.is_guided:
        from sweeps.store.earlier_sweeps import on_other_data

        if lines := on_other_data(sweep.search.named, dataset.digest(), storage):
            facts["other data"] = "\n".join(lines)
    duration = duration_of(plan, dataset)
    facts |= duration_facts(plan, duration)
    return _WithData(plan, facts, sizes_of(dataset), duration)


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
    from sweeps.drafting.writing import write_batch_script, write_new_sweep_file
    from sweeps.sweep_file.sections.search import GUIDED_TRIALS

    def write_script(file: str) -> None:
        script = write_batch_script(file)
        print(f"written: {script}")
        print(f"`sbatch {shlex.quote(script)}` queues it, once the lines marked CHANGE fit")

    if slurm and file is not None and os.path.exists(file):
        write_script(file)
        return
    asked = data is None
    if asked and file is not None and os.path.exists(file):
        raise UserError(f"{file}: already exists; if it is your data: --data {shlex.quote(file)}")
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
