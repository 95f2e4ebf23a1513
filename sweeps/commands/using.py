"""Commands that use a result, or judge predictions."""

from __future__ import annotations

import shlex
import sys
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from sweeps.commands.app import USE, app
from sweeps.commands.options import Storage, SweepName
from sweeps.errors import UserError
from sweeps.messages.formatting import DEFAULT_STORAGE, counted, finite
from sweeps.messages.redaction import redact

if TYPE_CHECKING:
    from sweeps.judging.facts import Findings

JUDGEMENT = "judgement.html"


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
    output: Annotated[
        str | None, typer.Option(help="The file; default judgement.html for html, else printed.")
    ] = None,
    form: Annotated[
        Literal["table", "json", "html"], typer.Option("--format", help="How to print it.")
    ] = "table",
) -> None:
    """Judge the calibration of predictions that already exist."""
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
    models = read_predictions(files, asked)
    found = judge_models(models, event)
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


def _judgement_text(found: Findings, as_json: bool) -> str:
    import io
    import json
    import shutil

    from sweeps.judging.facts import plain

    if as_json:
        return json.dumps(finite(plain(found)), indent=1) + "\n"
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
            help="An image or a folder of them, .npy; a table such as .csv, as in training."
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
