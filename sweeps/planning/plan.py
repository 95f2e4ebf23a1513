"""``calsweep check``: what a sweep file asks for, before anything is started."""

from __future__ import annotations

from optuna.distributions import BaseDistribution, CategoricalDistribution
from rich.console import RenderableType
from rich.table import Table

from sweeps.formatting import format_hyperparameters, format_value
from sweeps.search.space import initial_settings, search_trials, space_sizes, sweep_space
from sweeps.sweep_file.schema import SweepFile

_ANY_NUMBER_OF_CLASSES = 10


def plan_tables(sweep: SweepFile) -> list[RenderableType]:
    """The plan as a list of facts and the table of what is searched."""
    facts = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    facts.add_column(style="bold")
    facts.add_column(overflow="fold")
    for key, value in plan_facts(sweep).items():
        facts.add_row(key, value)
    space = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for heading in ("loss", "hyperparameter", "search range", "published settings"):
        space.add_column(heading, overflow="fold")
    published = initial_settings(sweep, _ANY_NUMBER_OF_CLASSES)[1:]
    for loss, branch in sweep_space(sweep).items():
        count = sum(name == loss for name, _ in published)
        rows = [(name, describe_range(d)) for name, d in branch.items()] or [("–", "")]
        for index, (name, values) in enumerate(rows):
            first = index == 0
            space.add_row(loss if first else "", name, values, str(count) if first else "")
    return ["", facts, "", space, ""]


def plan_facts(sweep: SweepFile) -> dict[str, str]:
    """The plan in words, by heading."""
    initial = initial_settings(sweep, _ANY_NUMBER_OF_CLASSES)
    first = len(initial)
    trials = search_trials(sweep, initial)
    fixed = min(first, trials)
    seeds = sweep.selection.seeds if sweep.selection.finalists else 0
    again = min(sweep.selection.finalists + 1, trials) * seeds
    cut = "" if first <= trials else f"; {first - trials} published settings do not fit"
    if trials < sweep.search.trials and space_sizes(sweep):
        cut = f"; there are no other settings, so search.trials = {sweep.search.trials} is not met"
    stages = f"{trials}: the baseline, {fixed - 1} published, {trials - fixed} searched{cut}"
    epochs = sweep.training.epochs
    in_all = (trials + again) * epochs
    if sweep.encoder:
        in_all += len(sweep.seeds) * sweep.encoder.training.epochs
    rungs = ", ".join(map(str, sweep.rungs))
    scaling = sweep.scaling
    cpus = scaling.cpus_per_worker * scaling.num_workers
    each = f"{cpus} {'CPU' if cpus == 1 else 'CPUs'}"
    if scaling.gpus_per_worker:
        each += f", {scaling.gpus_per_worker * scaling.num_workers:g} GPUs"
    return {
        "sweep": sweep.name,
        "dataset": sweep.dataset.label,
        "model": sweep.model.name,
        **_encoder_facts(sweep),
        "trials": stages,
        "finalists": f"at most {again} more: {sweep.selection.finalists} settings and the "
        f"baseline, {seeds} new seeds each"
        if again
        else "none",
        "epochs": f"at most {epochs} a trial"
        + (f"; poor trials stop at {rungs} by {sweep.scheduler.metric}" if rungs else ""),
        "in all": f"at most {in_all:,} epochs",
        "chosen by": f"{sweep.search.objective}, validation error at most "
        f"{sweep.search.guard:g} above cross-entropy's",
        **({"learns from": ", ".join(earlier)} if (earlier := sweep.search.warm_start) else {}),
        "each trial uses": each,
        "at once": "as many trials as there is room for"
        + (f", at most {scaling.max_concurrent}" if scaling.max_concurrent else ""),
    }


def _encoder_facts(sweep: SweepFile) -> dict[str, str]:
    if sweep.encoder is None:
        return {}
    loss, epochs = sweep.encoder.loss, sweep.encoder.training.epochs
    given = format_hyperparameters(loss.hyperparameters) if loss.hyperparameters else ""
    name = " ".join(part for part in (loss.name, given) if part)
    seeds = len(sweep.seeds)
    return {
        "encoder": f"{name}, {epochs} epochs, trained once for each of {seeds} seeds and frozen; "
        "the trials train a linear head on its features"
    }


def describe_range(distribution: BaseDistribution) -> str:
    """``0 … 10``, ``0.01 … 1 (log)``, or the choices."""
    if isinstance(distribution, CategoricalDistribution):
        return ", ".join(map(str, distribution.choices))
    low, high = distribution.low, distribution.high  # type: ignore[attr-defined]
    log = " (log)" if distribution.log else ""  # type: ignore[attr-defined]
    return f"{format_value(low)} … {format_value(high)}{log}"
