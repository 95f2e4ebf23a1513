"""The console for everything that people read."""

from __future__ import annotations

from typing import IO

from rich.console import Console


def plain_console(
    *,
    stderr: bool = False,
    width: int | None = None,
    file: IO[str] | None = None,
    recorded: bool = False,
) -> Console:
    """A console that prints text literally.

    Names, paths and messages may contain ``[/data/x]``, ``[old]`` or ``:x:``, which rich would
    interpret as markup, a style or an emoji.

    Args:
        stderr: Whether to print to standard error.
        width: In characters; None for the terminal's.
        file: Print to this file instead.
        recorded: Whether the output can be exported as HTML.
    """
    return Console(
        stderr=stderr,
        width=width,
        file=file,
        record=recorded,
        force_jupyter=False if file is not None else None,  # rich would display it in a notebook
        markup=False,
        emoji=False,
        highlight=False,
    )
