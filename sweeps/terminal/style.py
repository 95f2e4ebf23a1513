"""The style of all tables."""

from __future__ import annotations

from rich.table import Column, Table


def new_table(*headings: str, gap: int = 2) -> Table:
    """A table under bold headings, without lines; long texts continue on the next line."""
    columns = (Column(heading, overflow="fold") for heading in headings)
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
