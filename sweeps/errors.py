"""Errors that end a command."""

from __future__ import annotations

from sweeps.redaction import redact


class CommandError(Exception):
    """An error that ends a command; addresses in the message lose their credentials."""

    def __init__(self, message: str) -> None:
        super().__init__(redact(message))


class UserError(CommandError):
    """The user's input is wrong: one clear message, exit code 2, nothing left behind."""


class NameTakenError(UserError):
    """A sweep of this name exists, or another process is just starting or running it."""


class SweepFailedError(CommandError):
    """The sweep could not be carried out: exit code 1, with where to look."""


class SweepInterruptedError(CommandError):
    """Ctrl-C or SIGTERM: exit code 130, with how to continue."""


def first_line(error: Exception) -> str:
    """The message of an error, in one line."""
    return str(error).splitlines()[0] if str(error) else type(error).__name__
