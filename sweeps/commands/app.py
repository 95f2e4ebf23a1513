"""The application that the commands are added to, and the headings of its help."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

RUN, INSPECT, SELECT = "Run a sweep", "Inspect sweeps", "Select a setting"
JUDGE = "Judge predictions that exist"
USE, AVAILABLE, CLUSTER = "Use the result", "List what is available", "Jobs on a Ray cluster"


class _GroupedHelp(typer.core.TyperGroup):
    """Lists the commands in ``--help`` under the heading of their group."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        groups: dict[str, list[tuple[str, str]]] = {
            heading: [] for heading in (JUDGE, RUN, INSPECT, SELECT, USE, CLUSTER, AVAILABLE)
        }
        for name, command in self.commands.items():
            if not command.hidden:
                row = (name, command.get_short_help_str(limit=100))
                groups[getattr(command, "rich_help_panel", None) or AVAILABLE].append(row)
        for heading, rows in groups.items():
            with formatter.section(heading):
                formatter.write_dl(rows)


app = typer.Typer(
    name="calsweep",
    cls=_GroupedHelp,
    help="Find the loss and hyperparameters that calibrate a classifier's confidence.",
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _print_version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        print(f"calsweep {version('calsweep')}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _without_command(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version.", callback=_print_version, is_eager=True
        ),
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        print(context.get_help(), file=sys.stderr)
        raise typer.Exit(2)
