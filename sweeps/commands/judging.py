"""Commands about predictions that already exist."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer

from sweeps.commands.app import JUDGE, app
from sweeps.commands.options import Sets, Storage
from sweeps.errors import UserError, with_options
from sweeps.messages.formatting import DEFAULT_STORAGE, finite
from sweeps.messages.redaction import redact

if TYPE_CHECKING:
    from sweeps.judging.applied import NamedScaling
    from sweeps.judging.facts import Findings
    from sweeps.judging.inputs import Predicted
    from sweeps.judging.later import Later
    from sweeps.judging.tables import Asked

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
            metavar="SWEEP|FILE",
            help="A sweep, or earlier predictions of the same model: what has changed since?",
        ),
    ] = None,
    storage: Storage = DEFAULT_STORAGE,
    sets: Sets = "all",
    also: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,NAME,…",
            help="Metrics besides the usual ones: canonical_kde_ece, nll_aurc, mean_iou.",
        ),
    ] = None,
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
    found = judge_models(models, event, sets, also.split(",") if also else ())
    pairs = zip(models, found.models, strict=True)
    found = replace(found, models=[replace(j, decided=decisions.of(m, j)) for m, j in pairs])
    first, later, notes = found.models[0], None, list[str]()
    if against is not None:
        from sweeps.judging.later import compare_with_earlier, later_lines

        earlier = _earlier(against, storage, asked)
        name = event if first.event is None else first.event.name
        before = judge_models([earlier], name).models[0]
        later = compare_with_earlier((models[0], first), (earlier, before))
        notes = later_lines(later)
    match form:
        case "html":
            from sweeps.pages.judgement import render_judgement

            text, output = render_judgement(found, models, notes), output or JUDGEMENT
        case "json":
            text, notes = _json(found, later), []
        case "table":
            text, notes = _table(found, notes), []
    if output is None:
        print(text, end="")
    else:
        from sweeps.messages.files import write_text

        print(f"written: {write_text(text, output)}")
    if write_scaled is not None or save_scaling is not None:
        from sweeps.judging.applied import Decision, NamedScaling

        named = NamedScaling.recommended(models[0], first)
        if later is not None and later.scaling is not None:
            decision = Decision.of(first.decided)  # its confidence is after the other scaling
            named = replace(later.scaling, decision=decision and replace(decision, accept=None))
        notes = [*_apply(named, models[0], write_scaled, save_scaling), *notes]
    beside = sys.stderr if form == "json" and output is None else sys.stdout
    for line in notes:
        print(with_options(line), file=beside)
    if condition is not None and condition.holds(first):
        print(f"{first.name}: {condition} holds beyond chance", file=sys.stderr)
        raise typer.Exit(FAILED_CONDITION)


def _earlier(against: str, storage: str, asked: Asked) -> Predicted:
    """The predictions in a file, or those of a sweep's recommended classifier on its test split."""
    from pathlib import Path

    from sweeps.judging.reading import read_predictions
    from sweeps.judging.tables import SUFFIXES

    if Path(against).exists() or against.lower().endswith(SUFFIXES):
        return read_predictions([against], asked)[0]
    try:
        from sweeps.service.delivery.delivered import predicted_on_test
    except ImportError as error:
        raise UserError(
            f"--against {against}: is no file; for a sweep install calsweep[sweeps] ({error})"
        ) from None
    return predicted_on_test(against, storage)


def _json(found: Findings, later: Later | None) -> str:
    import json

    from sweeps.judging.facts import plain

    more = {} if later is None else {"later": later.plain()}
    return json.dumps(finite(plain(found) | more), indent=1) + "\n"


def _table(found: Findings, changes: Sequence[str]) -> str:
    import io
    import shutil

    from sweeps.terminal.console import plain_console
    from sweeps.terminal.judgement import print_judgement

    text = io.StringIO()
    width = max(100, shutil.get_terminal_size().columns)
    console = plain_console(width=width, file=text)
    for line in changes:
        console.print(line, markup=False, soft_wrap=True)
    if changes:
        console.print()
    print_judgement(found, console)
    return redact(with_options(text.getvalue()))


def _apply(
    named: NamedScaling, model: Predicted, write_scaled: str | None, save_scaling: str | None
) -> list[str]:
    """Write a model's scaled probabilities, and the scaling, to files; returns what was written."""
    from pathlib import Path

    from sweeps.judging.applied import write_probabilities
    from sweeps.messages.files import write_text

    written, name = [], named.scaling.name
    if write_scaled is not None:
        write_probabilities(Path(write_scaled), named.probabilities(model), model, labelled=True)
        written.append(f"written: {write_scaled} (scaled by {name}, fitted on these samples)")
    if save_scaling is not None:
        written.append(f"written: {write_text(named.text(), save_scaling)} ({name})")
    return written


@app.command(rich_help_panel=JUDGE)
def scale(
    file: Annotated[str, typer.Argument(metavar="FILE", help="Predictions; labels are not read.")],
    scaling: Annotated[
        str,
        typer.Option(
            "--with", help="A file of `calsweep judge --save-scaling`, or an exported classifier."
        ),
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
