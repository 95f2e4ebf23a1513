"""Commands that use a result."""

from __future__ import annotations

import shlex
import sys
from typing import Annotated, Literal

import typer

from sweeps.commands.app import USE, app
from sweeps.commands.options import Sets, Storage, SweepName
from sweeps.errors import UserError
from sweeps.messages.formatting import DEFAULT_STORAGE, counted

Reference = Annotated[
    bool, typer.Option("--reference", help="The best reference model instead of a network.")
]


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
    reference: Reference = False,
) -> None:
    """Export the recommended classifier, calibrated, for PyTorch or ONNX."""
    from sweeps.service.delivery.delivered import RECOMMENDED, Wanted
    from sweeps.service.delivery.exporting import export_model, reads_files
    from sweeps.service.delivery.registering import register as register_model

    wanted = Wanted(selected, loss, trial, ensemble, reference)
    if register and wanted not in (RECOMMENDED, Wanted(reference=True)):
        raise UserError(
            f"--{wanted}: with --register it is not allowed; MLflow gets the recommended classifier"
        )
    if register and onnx:
        raise UserError("--onnx: with --register it is not allowed; MLflow gets PyTorch's program")
    if register:
        print(f"registered: {register_model(name, storage, wanted)}")
        return
    folder, label = export_model(name, storage, output, onnx=onnx, wanted=wanted)
    print(f"written: {folder} ({label})")
    if reads_files(folder):
        print(f"`calsweep predict {shlex.quote(folder)} FILE` predicts new samples")


@app.command(rich_help_panel=USE)
def promote(
    name: SweepName, storage: Storage = DEFAULT_STORAGE, reference: Reference = False
) -> None:
    """Make a sweep's recommended classifier the champion in MLflow."""
    from sweeps.service.delivery.delivered import Wanted
    from sweeps.service.delivery.registering import promote as move_champion

    print(f"promoted: {move_champion(name, storage, Wanted(reference=reference))}")


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
    sets: Sets = "all",
    scaling: Annotated[
        str | None,
        typer.Option(
            help="A file of `calsweep judge --save-scaling`: its scaling, and its thresholds."
        ),
    ] = None,
    prior: Annotated[
        str | None,
        typer.Option(
            metavar="estimate|NAME=SHARE",
            help="Other frequencies of the classes, estimated from these samples or given.",
        ),
    ] = None,
    id_column: Annotated[
        str | None,
        typer.Option("--id", help="A column of the data that names each line of the output."),
    ] = None,
) -> None:
    """Print classes and probabilities of new samples, as CSV."""
    import io

    from sweeps.messages.files import write_text
    from sweeps.messages.formatting import shortened
    from sweeps.service.delivery.predicting import Asked
    from sweeps.service.delivery.predicting import predict as write_predictions

    table = io.StringIO(newline="")
    asked = Asked(on_bad_sample, id_column, coverage, method, sets, scaling, prior)
    count, notes = write_predictions(model, data, table, asked)
    for note in notes:
        print(shortened(note), file=sys.stderr)
    if output is None:
        print(table.getvalue(), end="")
    else:
        print(f"written: {write_text(table.getvalue(), output)} ({counted(count, 'sample')})")
