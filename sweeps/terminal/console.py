"""Where all that a person reads is printed."""

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
    """A console that shows text as it is.

    Names, paths and messages come from outside: ``[/data/x]`` in them is no markup to be closed,
    ``[old]`` no style to vanish, and ``:x:`` no picture.

    Args:
        stderr: Whether to print to standard error.
        width: In characters; None for the terminal's.
        file: Print there instead.
        recorded: Whether what is printed can be exported as HTML.
    """
    return Console(
        stderr=stderr,
        width=width,
        file=file,
        record=recorded,
        force_jupyter=False if file is not None else None,  # there it would show it instead
        markup=False,
        emoji=False,
        highlight=False,
    )
