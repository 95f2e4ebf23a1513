"""Arguments and options that several commands share."""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated, Literal

import typer

from sweeps.messages.formatting import DEFAULT_STORAGE

Storage = Annotated[
    str,
    typer.Option(
        envvar="CALSWEEP_STORAGE",
        metavar="PATH_OR_URI",
        help="Where sweeps, checkpoints and the MLflow database are stored.",
    ),
]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Override one value, e.g. training.epochs=5."),
]
NewName = Annotated[str | None, typer.Option("--name", help="Name of the sweep.")]
Compared = Annotated[
    str | None,
    typer.Option(
        "--compare", metavar="LOSS,LOSS", help="Search these losses and compare them in pairs."
    ),
]
FreshSeeds = Annotated[
    int | None,
    typer.Option("--seeds", help="Fresh seeds of each finalist: selection.seeds."),
]
Address = Annotated[str | None, typer.Option(help="A Ray cluster, host:port or 'auto'.")]
OrResume = Annotated[
    bool, typer.Option("--or-resume", help="Resume the sweep if it exists, otherwise start it.")
]
Debug = Annotated[
    bool,
    typer.Option(
        "--debug", help="Train in this process, without Ray: breakpoints and tracebacks work."
    ),
]
Form = Annotated[
    Literal["table", "json"],
    typer.Option("--format", help="For people, or for programs (docs/json.md)."),
]
Sets = Annotated[
    Literal["all", "per_class"],
    typer.Option(help="Whether prediction sets cover on average, or for each class."),
]
Url = Annotated[
    str | None,
    typer.Option(help="URL of a cluster's dashboard; default RAY_API_SERVER_ADDRESS."),
]
JOB = typer.Argument(help="A job's id, or the name of its sweep.")
JobName = Annotated[str, JOB]
File = Annotated[str, typer.Argument(help="A sweep file, or the name of a ready-made sweep.")]


def _complete_name(context: typer.Context, incomplete: str) -> list[str]:
    """The names of the sweeps in the storage, for the shell."""
    from sweeps.store.storage import sweep_names

    storage = context.params.get("storage") or DEFAULT_STORAGE
    with suppress(OSError):  # the command itself reports an unreadable storage
        return [name for name in sweep_names(storage) if name.startswith(incomplete)]
    return []


_NAME = typer.Argument(help="Name of a sweep in the storage.", autocompletion=_complete_name)
SweepName = Annotated[str, _NAME]
OneSweepName = Annotated[str | None, _NAME]
SweepNames = Annotated[
    list[str],
    typer.Argument(help="Names of sweeps in the storage.", autocompletion=_complete_name),
]
