"""Output of commands that continue if it cannot be written: the disk is full, a pipe is closed."""

from __future__ import annotations

import logging
import os
import sys
from contextlib import suppress
from typing import IO, Any, Final, cast

logger = logging.getLogger("calsweep")

_NOT_WRITTEN: Final = (OSError, ValueError)  # ValueError: the stream is closed


class LastingStream:
    """Standard output or error; writing never fails.

    Lines that cannot be written are logged, except frames of a live view.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    @property
    def _stream(self) -> Any:
        stream = getattr(sys, self._name)
        return getattr(stream, "rich_proxied_file", stream)  # which a live view has replaced

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def isatty(self) -> bool:
        with suppress(*_NOT_WRITTEN):
            return bool(self._stream.isatty())
        return False

    def write(self, text: str) -> int:
        try:
            self._stream.write(text)
            self._stream.flush()
        except _NOT_WRITTEN:
            if text.strip() and "\x1b" not in text:
                logger.info("%s", text.strip())
        return len(text)

    def flush(self) -> None:
        with suppress(*_NOT_WRITTEN):
            self._stream.flush()


def lasting_stream(name: str) -> IO[str]:
    """The stream for `rich`, which needs only part of its type."""
    return cast("IO[str]", LastingStream(name))


def discard_unwritable() -> None:
    """Discard what was printed and cannot be written, so that Python does not fail at its exit."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
