"""Errors that end a command."""

from __future__ import annotations

import re
import sysconfig
import traceback
from pathlib import Path
from typing import Final

from sweeps.messages.redaction import redact
from trainables.plugins import arguments

_ARGUMENT: Final = re.compile(r"`([a-z_]+)=([^`]*)`")


def with_options(text: str) -> str:
    """A text for a shell: ```label=NAME``` is ``--label NAME``, ```logits=true``` ``--logits``."""

    def spelled(argument: re.Match[str]) -> str:
        value = "" if argument[2] == "true" else f" {argument[2]}"
        return f"--{argument[1].replace('_', '-')}{value}"

    return _ARGUMENT.sub(spelled, text)


class CommandError(Exception):
    """An error that ends a command. Credentials are removed from addresses in its message."""

    def __init__(self, message: str) -> None:
        super().__init__(redact(message))


class UserError(CommandError):
    """The user's input is wrong: one clear message, exit code 2, nothing is left behind.

    `key` names the argument that is wrong, and `value` is what was given for it, if the message
    needs it. Python reads ``trial = 7: …``; a command shows `in_shell`: ``--trial 7: …``. For other
    arguments see :func:`with_options`.
    """

    def __init__(self, message: str, key: str = "", value: object = None) -> None:
        found = "" if value is None else f" = {value}"
        super().__init__(f"{key}{found}: {message}" if key else message)
        option = f"--{key.replace('_', '-')}{found.replace(' = ', ' ', 1)}"
        self.in_shell = redact(with_options(f"{option}: {message}" if key else message))


class NameTakenError(UserError):
    """A sweep of this name exists, or another process is just starting or running it."""


class SweepFailedError(CommandError):
    """The sweep failed: exit code 1; the message says where to look."""


class SweepInterruptedError(CommandError):
    """Ctrl-C, SIGTERM or SIGHUP: exit code 130; the message says how to continue."""


_FRAME: Final = re.compile(r'^  File "(.+)", line (\d+).*', re.MULTILINE)
_INSTALLED: Final = (Path(__file__).parents[1], Path(sysconfig.get_path("purelib")))


def cause(error: BaseException) -> str:
    """The last error of a traceback on one line, with the file and line that raised it.

    Ray and Tune raise errors whose message is the traceback of another error.
    """
    text = str(error) if _FRAME.search(str(error)) else "".join(traceback.format_exception(error))
    frames = list(_FRAME.finditer(text))
    below = text[frames[-1].end() :] if frames else text
    lines = [line for line in below.splitlines() if line and not line[0].isspace()]
    place = f", {_module(frames[-1][1])}, line {frames[-1][2]}" if frames else ""
    return f"{lines[0] if lines else type(error).__name__}{place}"


def _module(file: str) -> str:
    """A file's path, relative to the folder that it is imported from if that is a known one."""
    for folder in _INSTALLED:
        if Path(file).is_relative_to(folder):
            return str(Path(file).relative_to(folder))
    return file


def first_line(error: Exception) -> str:
    """The message of an error on one line."""
    return arguments.first_line(error) or type(error).__name__
