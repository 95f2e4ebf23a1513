"""Writes what a command gives to a file."""

from __future__ import annotations

from pathlib import Path

from sweeps.errors import UserError


def write_text(text: str, output: str, option: str = "--output ") -> str:
    """Write a text to a file, completely or not at all; returns the path.

    A UserError about a file that cannot be written names `option`.
    """
    return write_bytes(text.encode(), output, option)


def write_bytes(data: bytes, output: str, option: str = "--output ") -> str:
    """See :func:`write_text`."""
    path = Path(output).absolute()
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        temporary.write_bytes(data)
        temporary.replace(path)
    except OSError as error:
        raise UserError(f"{option}{path}: cannot be written: {error.strerror}") from None
    return str(path)
