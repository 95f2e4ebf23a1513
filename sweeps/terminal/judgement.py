"""A judgement of predictions, for the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from sweeps.judging import event_sentences, sentences
from sweeps.judging.facts import Findings, Judged
from sweeps.messages.formatting import metric_heading
from sweeps.terminal.console import new_table

_SHARES = ("mean probability", "frequency", "")
_CLASSES = ("predicted class", "true", "predicted", "confidence", "accuracy", "gap", "")


def print_judgement(found: Findings, console: Console) -> None:
    for line in sentences.read_lines(found):
        console.print(line, markup=False, soft_wrap=True)
    for line in sentences.use_line(found):
        console.print(f"\n{line}", markup=False)
    for model in found.models:
        console.print(f"\n{model.name}", style="bold")
        for line in sentences.summary(model):
            console.print(line, markup=False)
    if found.comparison:
        headings = ("metric", "difference between", "value", "verdict")
        _print_table(console, headings, sentences.comparison_rows(found.comparison))
        after = ("after scaling", *headings[1:])
        _print_table(console, after, sentences.comparison_rows(found.scaled))
    _print_table(console, ("metric", *(each.name for each in found.models)), _metric_rows(found))
    for model in found.models:
        if len(found.models) > 1:
            console.print(f"\n{model.name}", style="bold")
        for names, rows in _tables(model):
            _print_table(console, names, rows)


def _tables(model: Judged) -> list[tuple[Sequence[str], list[list[str]]]]:
    """Headings and rows of a model's tables; tables without rows are not shown."""
    event = model.event
    shares = [] if event is not None else event_sentences.class_share_rows(model.per_class)
    groups = [] if event is None else event_sentences.group_share_rows(model.per_group)
    return [
        (("class", *_SHARES), shares),
        (("group", "samples", *_SHARES), groups),
        (("scaling", *sentences.scaling_headings(model)), sentences.scaling_rows(model)),
        (_CLASSES, sentences.class_rows(model)),
        (
            ("group", "samples", "error", "ECE", "confidence - accuracy", ""),
            sentences.group_rows(model),
        ),
        (
            ("90% prediction sets", "coverage", "mean size", "least covered class"),
            sentences.set_rows(model),
        ),
    ]


def _metric_rows(found: Findings) -> list[list[str]]:
    return [
        [
            metric_heading(name),
            *(event_sentences.with_interval(model.metrics[name]) for model in found.models),
        ]
        for name in found.models[0].metrics
    ]


def _print_table(console: Console, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    if not rows:
        return
    table = new_table(*headings, whole=len(headings))
    for row in rows:
        table.add_row(*row)
    console.print()
    console.print(table)
