"""Replaces characters that an output stream cannot encode by a similar one."""

from __future__ import annotations

import codecs
import io
import unicodedata
from collections.abc import Iterable
from typing import IO, Final

_LIKE: Final = str.maketrans("γλαετρβ·–−…×★→≤≥“”’", 'glaetrb.--.x*><>""\'')
_HANDLER: Final = "calsweep"


def print_what_they_can(streams: Iterable[IO[str] | None]) -> None:
    """Let streams that are not in UTF-8 print all text instead of raising an error."""
    codecs.register_error(_HANDLER, _replace)
    for stream in streams:
        if isinstance(stream, io.TextIOWrapper) and codecs.lookup(stream.encoding).name != "utf-8":
            stream.reconfigure(errors=_HANDLER)


def _replace(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)  # decoding is not affected
    return "".join(map(_like, error.object[error.start : error.end])), error.end


def _like(character: str) -> str:
    found = character.translate(_LIKE)
    if not found.isascii():
        found = unicodedata.normalize("NFKD", character)[0]
    if "\u2800" <= found <= "\u28ff":  # Braille, used by spinners
        found = "*"
    return found if found.isascii() else "?"
