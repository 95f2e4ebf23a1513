"""JSON for other programs: `--format json` of several commands."""

from __future__ import annotations

import json
from typing import Final, Literal

from sweeps.messages.formatting import finite
from sweeps.messages.redaction import redact

FORMAT: Final = 1
"""The version of all documents; it rises when a key is renamed, removed or changes its meaning."""

Kind = Literal["list", "status", "show", "best", "check"]


def document(kind: Kind, **content: object) -> str:
    """The text of a document, without credentials and undefined numbers; see docs/json.md."""
    tree = {"calsweep": kind, "format": FORMAT, **content}
    return redact(json.dumps(finite(tree), indent=2, ensure_ascii=False))
