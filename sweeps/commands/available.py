"""Commands that list what is available."""

from __future__ import annotations

from typing import Annotated

import typer

from sweeps.commands.app import AVAILABLE, app
from sweeps.commands.printing import show_table


@app.command(rich_help_panel=AVAILABLE)
def losses(
    markdown: Annotated[bool, typer.Option("--markdown", help="As a Markdown table.")] = False,
) -> None:
    """List the losses with their hyperparameters, ranges and sources."""
    from sweeps.terminal.catalogue import losses_markdown, losses_table

    show_table(losses_markdown() if markdown else losses_table())


_LISTS = {
    "metrics": "List the metrics and their definitions.",
    "datasets": "List the datasets and their options.",
    "recipes": "List the experiments of papers; run one with `run recipes/NAME`.",
    "models": "List the models and their options.",
}


def _add_list(name: str, help_text: str) -> None:
    def print_list() -> None:
        from sweeps.terminal.catalogue import TABLES

        show_table(TABLES[name]())

    app.command(name, help=help_text, rich_help_panel=AVAILABLE)(print_list)


for _name, _help in _LISTS.items():
    _add_list(_name, _help)
