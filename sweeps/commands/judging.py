"""Commands about predictions that already exist."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer

from sweeps.commands.app import JUDGE, app
from sweeps.messages.formatting import finite
from sweeps.messages.redaction import redact

if TYPE_CHECKING:
    from sweeps.judging.applied import NamedScaling
    from sweeps.judging.facts import Findings
    from sweeps.judging.inputs import Predicted
    from sweeps.judging.later import Later

JUDGEMENT: Final = "judgement.html"
FAILED_CONDITION: Final = 3
"""The exit code if the condition of ``--fail-if`` holds."""


@app.command(rich_help_panel=JUDGE)
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
        str | None,
        typer.Option(help='Key or column that names the model; default model, "" for none.'),
    ] = None,
    id_column: Annotated[
        str | None,
        typer.Option(
            "--id",
            help='Column by which rows of several files are matched; "" for rows in order.',
        ),
    ] = None,
    event: Annotated[
        str | None,
        typer.Option(help="The class, of two, that is the event; default the less frequent one."),
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="Earlier predictions of the same model: what has changed since?"
        ),
    ] = None,
    sets: Annotated[
        Literal["all", "per_class"],
        typer.Option(help="Whether prediction sets cover on average, or for each class."),
    ] = "all",
    costs: Annotated[
        str | None,
        typer.Option(
            metavar="fp=1,fn=20",
            help="Costs of a false alarm and of a missed event: the threshold that costs least.",
        ),
    ] = None,
    accept_error: Annotated[
        float | None,
        typer.Option(help="The confidence from which at most this share is wrong, such as .02."),
    ] = None,
    write_scaled: Annotated[
        str | None, typer.Option(help="Write the scaled probabilities (.npz or .csv).")
    ] = None,
    save_scaling: Annotated[
        str | None, typer.Option(help="Write the recommended scaling (.json) for `scale`.")
    ] = None,
    fail_if: Annotated[
        str | None,
        typer.Option(
            metavar='"ece > .05"',
            help="End with exit code 3 if this holds beyond chance for the first model.",
        ),
    ] = None,
    output: Annotated[
        str | None, typer.Option(help="The file; default judgement.html for html, else printed.")
    ] = None,
    form: Annotated[
        Literal["table", "json", "html"], typer.Option("--format", help="How to print it.")
    ] = "table",
) -> None:
    """Judge the calibration of predictions that already exist."""
    from sweeps.judging.conditions import Condition
    from sweeps.judging.decisions import Decisions
    from sweeps.judging.judgement import judge as judge_models
    from sweeps.judging.reading import read_predictions
    from sweeps.judging.tables import Asked

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
        id=id_column,
    )
    condition = None if fail_if is None else Condition.parse(fail_if)
    decisions = Decisions.parse(costs, accept_error)
    models = read_predictions(files, asked)
    found = judge_models(models, event, sets)
    later = None
    if against is not None:
        from sweeps.judging.later import compare_with_earlier

        [earlier] = read_predictions([against], asked)[:1]
        before = judge_models([earlier], event).models[0]
        later = compare_with_earlier((models[0], found.models[0]), (earlier, before))
    notes = [line for each in models for line in decisions.lines(each, event)]
    if form == "html":  # the page is about these predictions alone
        notes = [*_on_later(later), *notes]
    if form == "html":
        from sweeps.pages.judgement import render_judgement

        text, output = render_judgement(found, models), output or JUDGEMENT
    else:
        text = _judgement_text(found, later, as_json=form == "json")
    if output is None:
        print(text, end="")
    else:
        from sweeps.messages.files import write_text

        print(f"written: {write_text(text, output)}")
    _apply(models[0], write_scaled, save_scaling, None if later is None else later.scaling)
    for line in notes:
        print(line, file=sys.stderr if form != "table" and output is None else sys.stdout)
    if condition is not None and condition.holds(found.models[0]):
        print(f"{found.models[0].name}: {condition} holds beyond chance", file=sys.stderr)
        raise typer.Exit(FAILED_CONDITION)


def _judgement_text(found: Findings, later: Later | None, *, as_json: bool) -> str:
    import io
    import json
    import shutil

    from sweeps.judging.facts import plain

    if as_json:
        more = {} if later is None else {"later": later.plain()}
        return json.dumps(finite(plain(found) | more), indent=1) + "\n"
    from sweeps.terminal.console import plain_console
    from sweeps.terminal.judgement import print_judgement

    text = io.StringIO()
    width = max(100, shutil.get_terminal_size().columns)
    console = plain_console(width=width, file=text)
    for line in _on_later(later):
        console.print(line, markup=False, soft_wrap=True)
    if later is not None:
        console.print()
    print_judgement(found, console)
    return redact(text.getvalue())


def _on_later(later: Later | None) -> list[str]:
    """What has changed since earlier predictions; nothing without them."""
    if later is None:
        return []
    from sweeps.judging.later import later_lines

    return list(later_lines(later))


def _apply(
    model: Predicted,
    write_scaled: str | None,
    save_scaling: str | None,
    instead: NamedScaling | None,
) -> None:
    """Write what is asked for of the recommended scaling of a model, or of another one instead."""
    from pathlib import Path

    from sweeps.judging.applied import NamedScaling, write_probabilities
    from sweeps.messages.files import write_text

    if write_scaled is None and save_scaling is None:
        return
    named = instead or NamedScaling.recommended(model)
    if write_scaled is not None:
        path = Path(write_scaled)
        write_probabilities(path, named.probabilities(model), model, labelled=True)
        print(f"written: {path} (scaled by {named.scaling.name}, fitted on these samples)")
    if save_scaling is not None:
        print(f"written: {write_text(named.text(), save_scaling)} ({named.scaling.name})")


@app.command(rich_help_panel=JUDGE)
def scale(
    file: Annotated[str, typer.Argument(metavar="FILE", help="Predictions; labels are not read.")],
    scaling: Annotated[
        str, typer.Option("--with", help="A file of `calsweep judge --save-scaling`.")
    ],
    output: Annotated[str, typer.Option(help="The file to write (.npz or .csv).")] = "scaled.npz",
) -> None:
    """Scale predictions by a scaling that `judge` recommended."""
    from pathlib import Path

    from sweeps.judging.applied import NamedScaling, read_unlabelled, write_probabilities

    named = NamedScaling.read(Path(scaling))
    model = read_unlabelled(Path(file), named.classes)
    write_probabilities(Path(output), named.probabilities(model), model, labelled=False)
    print(f"written: {output} (scaled by {named.scaling.name})")
