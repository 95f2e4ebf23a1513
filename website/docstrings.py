"""Shows examples in docstrings as code on the site, and Sphinx roles as plain code."""

from __future__ import annotations

import re
from typing import Any, Final

import griffe

_EXAMPLE: Final = re.compile(r"(?:^>>> .*\n?(?:^\.\.\. .*\n?)*)+", re.MULTILINE)
_ROLE: Final = re.compile(r":(?:func|class|meth|mod|attr|data):`(?:~(?:\w+\.)*)?([^`]+)`")


class Examples(griffe.Extension):
    """Puts lines that begin with ``>>>`` into a code block; takes roles from names."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """For each object that is read."""
        if obj.docstring is not None:
            plain = _ROLE.sub(r"`\1`", obj.docstring.value)
            obj.docstring.value = _EXAMPLE.sub(_fenced, plain)


def _fenced(example: re.Match[str]) -> str:
    lines = [line[4:] for line in example[0].rstrip("\n").splitlines()]
    return "\n".join(["```python", *lines, "```", ""])
