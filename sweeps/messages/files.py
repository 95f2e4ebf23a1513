"""Writes what a command gives to a file."""

from __future__ import annotations

from pathlib import Path

from sweeps.errors import UserError


def write_text(text: str, output: str) -> str:
    """Write a text to a file, completely or not at all; returns the path.

    Raises a UserError if that fails.
    """
    return write_bytes(text.encode(), output)


def write_bytes(data: bytes, output: str) -> str:
    """See :func:`write_text`."""
    path = Path(output).absolute()
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        temporary.write_bytes(data)
        temporary.replace(path)
    except OSError as error:
        raise UserError(f"{path}: cannot be written: {error.strerror}") from None
    return str(path)
