"""Errors that end a command."""

from __future__ import annotations

from sweeps.messages.redaction import redact


class CommandError(Exception):
    """An error that ends a command. Credentials are removed from addresses in its message."""

    def __init__(self, message: str) -> None:
        super().__init__(redact(message))


class UserError(CommandError):
    """The user's input is wrong: one clear message, exit code 2, nothing is left behind."""


class NameTakenError(UserError):
    """A sweep of this name exists, or another process is just starting or running it."""


class SweepFailedError(CommandError):
    """The sweep failed: exit code 1; the message says where to look."""


class SweepInterruptedError(CommandError):
    """Ctrl-C or SIGTERM: exit code 130; the message says how to continue."""


def first_line(error: Exception) -> str:
    """The message of an error on one line."""
    return str(error).splitlines()[0] if str(error) else type(error).__name__
