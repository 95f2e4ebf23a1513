"""Results of sweeps as tables and text for the terminal."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from rich.table import Table

from trainables.contract.metric_names import MetricName

if TYPE_CHECKING:
    from rich.console import Console

from sweeps.errors import UserError
from sweeps.messages.documents import document
from sweeps.messages.formatting import (
    counted,
    format_age,
    format_bytes,
    format_fraction,
    format_hyperparameters,
    format_loss,
    format_setting,
    format_temperature,
    metric_heading,
    objective_heading,
)
from sweeps.messages.redaction import redact
from sweeps.results.best import BestEntry, as_sweep_file
from sweeps.results.columns import (
    LeaderboardRow,
    legend,
    objective_metric,
    shown_metrics,
    with_rare_class,
)
from sweeps.results.leaderboard import in_short
from sweeps.results.recommendation import STAR
from sweeps.results.result import SweepResult
from sweeps.results.side_by_side import Beside, best_by_loss
from sweeps.results.so_far import ListedSweep
from sweeps.results.verdicts import Comparison, basis, reading
from sweeps.sweep_file.loading import FIRST_LINE, read_resolved, to_yaml
from sweeps.terminal.console import new_table, plain_console
from sweeps.terminal.watching import ended

_WORD = 28  # characters available for the longest word of a setting
_NOTE = 9  # width of notes: the longest word is "reference"


def _in_two_lines(heading: tuple[str, ...]) -> str:
    """The words of a heading in two lines that are as short as possible."""
    words = " ".join(heading).split()
    lines = ([" ".join(words[:n]), " ".join(words[n:])] for n in range(len(words)))
    return "\n".join(min(lines, key=lambda both: max(map(len, both))))


def leaderboard_table(rows: Sequence[LeaderboardRow], objective: str, width: int = 80) -> Table:
    """The leaderboard for a terminal of this width, at least 80 columns."""
    shown = shown_metrics(objective, rare=with_rare_class(rows))
    *fractions, temperature = ((name, _in_two_lines(each)) for name, each in shown.items())
    table = new_table(gap=1)
    # Two columns, or a narrower one, would break words of settings at 80 columns.
    settings = [
        STAR * row.recommended + format_setting(row.loss, row.hyperparameters) for row in rows
    ]
    widest = max((len(word) for setting in settings for word in setting.split()), default=0)
    widest = min(widest, _WORD)
    table.add_column("loss and\nits best setting", overflow="fold", min_width=widest)
    for _, heading in fractions:
        table.add_column(heading, justify="right", min_width=5, no_wrap=True)
    table.add_column(temperature[1], justify="right", min_width=4, no_wrap=True)
    # Without this maximum, Rich would crop the table instead of folding the notes.
    numbers = sum(1 + max(5, *map(len, heading.split("\n"))) for _, heading in fractions)
    left = width - widest - numbers - len("1.00 ") - 1
    table.add_column("", overflow="fold", min_width=_NOTE, max_width=max(_NOTE, left))
    for row, setting in zip(rows, settings, strict=True):
        table.add_row(
            setting,
            *(format_fraction(row.value(name)) for name, _ in fractions),
            format_temperature(row.value("temperature")),
            row.note,
            style="bold green" if row.recommended else None if row.is_judged else "dim",
        )
    return table


def print_answer(console: Console, found: SweepResult) -> None:
    """Print a sweep's result on one screen: recommendation, best losses, the two verdicts."""
    _print_leaderboard(console, found, in_short(found.rows))
    if verdicts := found.leading_comparisons:
        console.print()
        console.print(verdict_table(verdicts, console.width))
        console.print(" ".join(reading(verdicts)), style="dim")
    # Without a recommendation, the reasons say why there is none.
    some = (*found.failures, *found.evidence.ends)
    if lines := found.why if found.recommended is None else some:
        console.print()
    for line in lines:
        console.print(redact(line))


def _print_leaderboard(
    console: Console, found: SweepResult, rows: Sequence[LeaderboardRow]
) -> None:
    """Print the recommendation, and these rows of the leaderboard."""
    if found.recommended is not None:
        console.print(f"{STAR}{redact(found.recommended.text)}\n", style="bold")
    for line in found.evidence.in_plain_words:
        console.print(f"{redact(line)}\n")
    for warning in found.warnings:
        console.print(f"Warning: {redact(warning)}\n", style="bold red")
    console.print(leaderboard_table(rows, found.objective, console.width))
    if left := len(found.rows) - len(rows):
        console.print(f"and {counted(left, 'further loss')}", style="dim")
    console.print(" ".join(legend(found.rows, found.objective)), style="dim")


def print_whole_answer(console: Console, found: SweepResult) -> None:
    """Print a sweep's result with all losses, reasons and verdicts, and their basis."""
    _print_leaderboard(console, found, found.rows)
    console.print()
    for line in found.why:
        console.print(redact(line))
    comparisons = found.evidence.all_comparisons
    if comparisons:
        console.print()
        console.print(verdict_table(comparisons, console.width))
        console.print()
    for line in basis(comparisons):
        console.print(line, style="dim")


def verdict_table(comparisons: Sequence[Comparison], width: int = 80) -> Table:
    """The verdicts for a terminal of this width, at least 80 columns, one row each."""
    table = new_table(gap=1)
    # Without this maximum, Rich would crop the verdicts beside a long name.
    table.add_column("\ncompared", overflow="fold", min_width=22, max_width=max(22, width - 58))
    table.add_column("\nsplit", no_wrap=True)
    table.add_column("\nmetric", max_width=10)
    table.add_column("difference and\nits 95% interval", min_width=26)  # a number of groups wraps
    table.add_column("\nverdict", no_wrap=True)
    before = None
    for each in comparisons:
        if each.ours != before:
            table.add_row(f"{each.ours.short} vs", style="bold")
            before = each.ours
        table.add_row(
            f" {each.theirs.short}",
            {"validation": "val"}.get(each.split, each.split),
            metric_heading(each.metric),
            each.difference,
            each.verdict,
            style={"supported": "green", "worse": "red"}.get(each.verdict),
        )
    return table


def overview_table(sweeps: Sequence[ListedSweep]) -> Table:
    table = new_table("sweep", "state", "dataset\nmodel", "age\nowner", whole=1)
    for heading in ("trials", "CPU h\nGPU h", "size"):
        table.add_column(heading, justify="right")
    table.add_column("best so far")
    now = time.time()
    for each in sweeps:
        age = "not yet" if each.started is None else format_age(now - each.started)
        gpu_hours = f"{each.gpu_hours:.1f}" if each.gpu_hours else "–"
        table.add_row(
            each.name,
            each.state,
            f"{each.dataset}\n{each.model}",
            f"{age}\n{each.owner or '–'}",
            str(ended(each.states)),
            f"{each.cpu_hours:.1f}\n{gpu_hours}",
            format_bytes(each.bytes),
            each.best or "–",
            style={"running": "bold", "failed": "red"}.get(each.state),
        )
    return table


def best_table(entries: Sequence[BestEntry]) -> Table:
    """The entries for the terminal; their objectives determine the columns."""
    metrics = list(dict.fromkeys(_shown_metric(entry.objective) for entry in entries))
    # Two per column, because the intervals need two lines anyway, so the table fits into 80
    # columns.
    table = new_table("dataset\nmodel", "recom-\nmended", gap=1)
    names = [objective_heading(m) for m in metrics]
    headings = [f"{split}\n{name}" for name in names for split in ("val", "test")]
    for heading in (*headings, "val\nerror", "test\nerror", "\nT"):
        table.add_column(heading, justify="right", overflow="fold")
    table.add_column("\nselected", overflow="fold")
    for entry in entries:
        val, test = entry.val, entry.test
        table.add_row(
            f"{entry.dataset}\n{entry.model}",
            f"{entry.loss}\n{format_hyperparameters(entry.hyperparameters)}",
            *(_with_interval(each, m) for m in metrics for each in (val, test)),
            format_fraction(val["error"]),
            format_fraction(test["error"]),
            f"{entry.temperature:.2f}",
            _best_setting(entry),
        )
    by_groups = any("groups" in {**entry.val, **entry.test} for entry in entries)
    unit = ", the number of groups that it is over" if by_groups else ""
    table.caption = (
        f"Below a value: its 95% interval{unit}, and (≤) what a perfectly calibrated model would "
        "show at most. Recommended: what to deploy. Selected: the lowest validation value at an "
        "allowed error; it is recommended if it is shown to beat scaled cross-entropy (CE)."
    )
    table.caption_justify = "left"
    return table


def _best_setting(entry: BestEntry) -> str:
    """The setting with the best objective, and whether it is shown to beat cross-entropy."""
    best = entry.best
    same = (best.loss, best.hyperparameters) == (entry.loss, entry.hyperparameters)
    setting = f"{best.loss}\n{format_hyperparameters(best.hyperparameters)}".rstrip()
    shown = "the same" if same else f"{setting}\nval {format_fraction(best.value)}"
    if best.verdict is None:
        return shown
    words = {"supported": "beats scaled CE", "worse": "worse than scaled CE"}
    return f"{shown}\n{words.get(best.verdict, 'not shown to beat scaled CE')}"


def _shown_metric(objective: str) -> str:
    """The metric in the table: ``ece_scaled`` if that was the objective."""
    return str(MetricName(objective_metric(objective), scaled=MetricName.parse(objective).scaled))


def _with_interval(values: Mapping[str, float], metric: str) -> str:
    lines = [format_fraction(values.get(metric, math.nan))]
    name = MetricName.parse(metric)
    low, high = name.with_statistic("low"), name.with_statistic("high")
    bound = name.with_statistic("calibrated_high")
    if low in values:
        lines.append("–".join(format_fraction(values[end]) for end in (low, high)))
    if "groups" in values:
        lines.append(counted(round(values["groups"]), "group"))
    if bound in values:
        lines.append(f"≤{format_fraction(values[bound])}")
    return "\n".join(lines)


def side_by_side_tables(sweeps: Sequence[Beside]) -> list[Table]:
    """The selected setting of each sweep, and the best setting of each loss in each sweep."""
    chosen = new_table("sweep", "dataset\nmodel", "selected", gap=1)
    for heading in ("\nval", "error\nval", "\ntest", "test\nwith T", "\nT"):
        chosen.add_column(heading, justify="right", overflow="fold")
    chosen.add_column("beats scaled\ncross-entropy", overflow="fold")
    for each in sweeps:
        cells = ["none", *5 * ["–"]]
        if (best := each.ranking.chosen) is not None:
            given = format_hyperparameters(best.setting.hyperparameters)
            numbers = (best.objective, best.val_error, *each.on_test[:2])
            temperature = format_temperature(best.mean("temperature"))
            setting = f"{format_loss(best.loss)}\n{given}"
            cells = [setting, *map(format_fraction, numbers), temperature]
        chosen.add_row(
            each.sweep.name,
            f"{each.sweep.dataset.label}\n{each.sweep.model_label}",
            *cells,
            (each.verdict or "–") + each.over.replace(" over", "\nover"),
        )
    return [chosen, _by_loss(sweeps)]


def _by_loss(sweeps: Sequence[Beside]) -> Table:
    names = (f"{s.sweep.name}\n{objective_heading(s.sweep.objective)} val" for s in sweeps)
    table = new_table("best of each loss", *names, whole=1)
    for loss, best in best_by_loss(sweeps).items():
        cells = [
            "–"
            if c is None
            else f"{format_fraction(c.objective)}  "
            f"{format_hyperparameters(c.setting.hyperparameters)}"
            f"{'' if c.feasible else f' ({c.broken[0].too_far})'}"
            for c in best
        ]
        table.add_row(format_loss(loss), *cells)
    return table


def render_best(
    entries: Sequence[BestEntry], form: str, read_sweep_file: Callable[[BestEntry], str]
) -> None:
    """Print the entries as ``table``, ``json`` or ``yaml``: a sweep file, for one entry alone."""
    if form == "json":
        print(document("best", best=[entry.to_json() for entry in entries]))
    elif form == "yaml":
        print(_yaml(_only(entries), read_sweep_file), end="")
    else:
        console = plain_console()
        for entry in entries:
            if better := entry.better_reference:
                console.print(redact(f"{entry.dataset}: {better}"), style="bold")
        console.print(best_table(entries))


def _only(entries: Sequence[BestEntry]) -> BestEntry:
    if len(entries) > 1:
        keys = ["dataset", "model"]
        if len({entry.objective for entry in entries}) > 1:
            keys.append("objective")
        listed = (", ".join(f"{key} {getattr(entry, key)}" for key in keys) for entry in entries)
        raise UserError(
            f"it is one sweep file, and there are {len(entries)} answers; choose one by "
            f"{' and '.join(keys)}:\n  " + "\n  ".join(listed),
            "format",
            "yaml",
        )
    return entries[0]


def _yaml(entry: BestEntry, read_sweep_file: Callable[[BestEntry], str]) -> str:
    text = read_sweep_file(entry)
    resolved = read_resolved(text, f"sweep.yaml of {entry.sweep}").model_dump(mode="json")
    metric = objective_metric(entry.objective)
    found = ", ".join(
        f"{split} {metric_heading(metric)} {values[metric]:.4f}"
        for split, values in (("val", entry.val), ("test", entry.test))
    )
    title = FIRST_LINE + (
        f"# {entry.loss} {format_hyperparameters(entry.hyperparameters)} on "
        f"{entry.dataset}: {found}, temperature {entry.temperature:.2f}\n"
    )
    return title + to_yaml(as_sweep_file(entry.setting, resolved, entry.candidates, entry.data))
