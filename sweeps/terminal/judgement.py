"""A judgement of predictions, for the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from sweeps.judging import sentences
from sweeps.judging.facts import Findings, Judged
from sweeps.messages.formatting import metric_heading
from sweeps.terminal.console import new_table

_CLASSES = ("predicted class", "true", "predicted", "confidence", "accuracy", "gap", "")


def print_judgement(found: Findings, console: Console) -> None:
    models = found.models
    for line in sentences.read_lines(found):
        console.print(line, markup=False, soft_wrap=True)
    console.print()
    console.print(_metrics_table(models))
    for model in models:
        console.print(f"\n{model.name}", style="bold")
        for line in sentences.summary(model):
            console.print(line)
        parts: tuple[tuple[tuple[str, ...], list[list[str]]], ...] = (
            (("scaling", "NLL", "Brier", "ECE", "error"), sentences.scaling_rows(model)),
            (_CLASSES, sentences.class_rows(model)),
            (
                ("group", "samples", "error", "ECE", "confidence - accuracy", ""),
                sentences.group_rows(model),
            ),
            (("90% prediction sets", "coverage", "mean size"), sentences.set_rows(model)),
        )
        for headings, rows in parts:
            if rows:
                console.print()
                console.print(_table(headings, rows))
    if found.comparison:
        console.print()
        headings = ("metric", "difference between", "value", "verdict")
        console.print(_table(headings, sentences.comparison_rows(found.comparison)))


def _metrics_table(models: Sequence[Judged]) -> Table:
    rows = [
        [metric_heading(name), *(sentences.with_interval(model.metrics[name]) for model in models)]
        for name in models[0].metrics
    ]
    return _table(("metric", *(model.name for model in models)), rows)


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    table = new_table(*headings, whole=len(headings))
    for row in rows:
        table.add_row(*row)
    return table
