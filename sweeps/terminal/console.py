"""The console for everything that people read."""

from __future__ import annotations

from typing import IO

from rich.console import Console

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
