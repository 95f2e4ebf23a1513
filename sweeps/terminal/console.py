"""The console and the tables for everything that people read."""

from __future__ import annotations

from typing import IO

from rich.console import Console
from rich.table import Column, Table

from sweeps.terminal.lasting import lasting_stream


def plain_console(
    *,
    stderr: bool = False,
    width: int | None = None,
    file: IO[str] | None = None,
    recorded: bool = False,
    lasting: bool = False,
) -> Console:
    """A console that prints text literally; with `recorded` it can export HTML.

    A `lasting` one never fails, see :class:`~sweeps.terminal.lasting.LastingStream`: a sweep
    continues without its output.
    Names, paths and messages may contain ``[/data/x]``, ``[old]`` or ``:x:``, which rich would
    interpret as markup, a style or an emoji.
    """
    return Console(
        stderr=stderr,
        width=width,
        file=lasting_stream("stderr" if stderr else "stdout") if lasting else file,
        record=recorded,
        force_jupyter=False if file is not None else None,  # rich would display it in a notebook
        markup=False,
        emoji=False,
        highlight=False,
    )


def new_table(*headings: str, gap: int = 2, whole: int = 0) -> Table:
    """A table under bold headings, without lines.

    Long texts continue on the next line, except in this many first columns.
    """
    columns = (
        Column(heading, no_wrap=i < whole, overflow="ellipsis" if i < whole else "fold")
        for i, heading in enumerate(headings)
    )
    return Table(*columns, box=None, pad_edge=False, padding=(0, gap, 0, 0), header_style="bold")


def facts_table(facts: dict[str, str]) -> Table:
    """One line per fact: its name in bold and its value."""
    table = new_table()
    table.show_header = False
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for name, value in facts.items():
        table.add_row(name, value)
    return table
