"""The content of the sweep's own run in MLflow: the descriptions and the data."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from sweeps.messages.formatting import (
    counted,
    escaped_markdown,
    format_fraction,
    format_hyperparameters,
    format_temperature,
    markdown_table,
    metric_heading,
)
from sweeps.messages.redaction import redact
from sweeps.results.columns import LeaderboardRow, one_line, shown_metrics, with_rare_class
from sweeps.results.recommendation import STAR
from sweeps.results.result import SweepResult
from sweeps.results.so_far import so_far
from sweeps.results.verdicts import Comparison, basis
from sweeps.search.plan import Plan
from sweeps.search.ranking import Ranking
from sweeps.store.identity import Identity
from sweeps.store.journal import read_journal
from trainables.files.storage import Folder

_DIGEST = 36  # characters that MLflow stores at most
_ACTS = 30  # in a tag: MLflow stores some thousand characters
BEST = "best.yaml"
JOURNAL = "calsweep.journal"
REPORT = "report.html"


def running_description(plan: Plan, ranking: Ranking | None = None) -> str:
    """The description of a running sweep, in Markdown, with the ranking of its ended trials."""
    losses = ", ".join(section.name for section in plan.sweep.losses)
    return (
        f"A sweep of `{plan.sweep.model_label}` on **{plan.sweep.dataset.label}** over {losses}, "
        f"for the lowest {' and '.join(plan.rule.objectives)}. It is not finished yet."
        + _so_far(ranking)
    )


def _so_far(ranking: Ranking | None) -> str:
    if ranking is None or not ranking.records:
        return ""
    text = f"\n\n{counted(len(ranking.records), 'trial')} ended so far"
    if ranking.chosen is None:
        return f"{text}; none within the guard has finished."
    label = escaped_markdown(ranking.chosen.trials[0].label)
    objective, why = escaped_markdown(ranking.rule.objective), escaped_markdown(so_far(ranking).why)
    return (
        f"{text}. **Best so far: {label}**, {objective} {ranking.chosen.objective:.4f}. Why: {why}."
    )


def description(plan: Plan, found: SweepResult) -> str:
    """The description of a finished sweep, in Markdown: result, table, how to use and repeat it."""
    warnings = [f"**Warning:** {escaped_markdown(line)}" for line in found.warnings]
    words = (*found.evidence.in_plain_words, *found.why)
    why = "\n\n".join(map(escaped_markdown, words))
    comparisons = found.evidence.all_comparisons
    advice = "" if found.recommended is None else escaped_markdown(found.recommended.text)
    parts = [*([f"**{advice}**"] if advice else []), *warnings, why, _table(plan, found.rows)]
    if comparisons:
        parts += [_verdict_table(comparisons), " ".join(basis(comparisons))]
    if found.selected is not None:
        parts.append(
            f"**Use it:** `calsweep export {plan.name}` writes what is recommended. Artifact "
            f"`{BEST}` is a sweep file of the selected setting alone (`calsweep run {BEST}`)."
        )
    parts.append(
        "**Repeat it:** artifact `sweep.yaml` is the whole sweep file, `environment.json` the "
        f"versions and the command. All pictures are in artifact `{REPORT}`."
    )
    return "\n\n".join(parts)


def journal_tags(folder: Folder) -> dict[str, str]:
    """Tags with who did what with a sweep, the latest acts; empty for an earlier version's."""
    entries = read_journal(folder)
    return {JOURNAL: "\n".join(map(str, entries[-_ACTS:]))} if entries else {}


def dataset_entity(plan: Plan, identity: Identity) -> Any:
    """The data as MLflow's entity: name, digest, sizes, source."""
    from mlflow.entities import Dataset

    source = {"name": plan.sweep.dataset.name, **plan.sweep.dataset.options}
    return Dataset(
        name=plan.sweep.dataset.label,
        digest=identity.digest[:_DIGEST],
        source_type="calsweep",
        source=redact(json.dumps(source, default=str)),
        profile=json.dumps({**identity.samples, "classes": identity.num_classes}),
    )


def _table(plan: Plan, rows: Sequence[LeaderboardRow]) -> str:
    shown = shown_metrics(plan.rule.objective, rare=with_rare_class(rows))
    *fractions, temperature = shown
    heads = ["loss", "best setting", *(one_line(heading) for heading in shown.values()), ""]
    # MLflow leaves no space between columns.
    lines = [[f"{head}&ensp;" for head in heads], ["---"] * len(heads)]
    for row in rows:
        setting = format_hyperparameters(row.hyperparameters)
        name = STAR * row.recommended + row.loss
        wide = [f"{escaped_markdown(text)}&ensp;" for text in (name, setting)]
        values = [format_fraction(row.value(name)) for name in fractions]
        values.append(f"{format_temperature(row.value(temperature))}&ensp;")
        lines.append([*wide, *values, escaped_markdown(row.note)])
    return markdown_table(lines)


def _verdict_table(comparisons: Sequence[Comparison]) -> str:
    lines = [["compared&ensp;", "split&ensp;", "difference [95% interval]&ensp;", "verdict"]]
    lines.append(["---"] * len(lines[0]))
    for each in comparisons:
        compared = f"{each.ours} against {each.theirs}"
        found = f"{metric_heading(each.metric)} {each.difference}"
        wide = [f"{escaped_markdown(text)}&ensp;" for text in (compared, each.split, found)]
        lines.append([*wide, each.verdict])
    return markdown_table(lines)
