"""Parts of README.md and CONTRIBUTING.md, which are pages of the site too."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]


def answer() -> str:
    """The answer of the quickstart."""
    return _between("## Two commands", "Then `calsweep ui`").partition("reasons:\n")[2].strip()


def contributing() -> str:
    """CONTRIBUTING.md."""
    return _for_site((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"))


def _between(start: str, end: str) -> str:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    found = text.partition(start)[2].partition(end)
    if not (found[0] and found[1]):
        raise ValueError(f"README.md has no part from {start!r} to {end!r}")
    return found[0]


def _for_site(text: str) -> str:
    """With the links as they are from docs/."""
    return re.sub(r"\]\(docs/", "](", text).replace("[docs/", "[")
