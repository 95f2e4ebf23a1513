"""Parts of README.md and CONTRIBUTING.md that the site shows too."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]


def answer() -> str:
    """The output of the quickstart: the README's block of plain text."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    found = re.findall(r"^```text\n.*?^```$", text, re.MULTILINE | re.DOTALL)
    if len(found) != 1:
        raise ValueError(f"README.md must have one ```text block, has {len(found)}")
    return str(found[0])


def contributing() -> str:
    """CONTRIBUTING.md."""
    return _for_site((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"))


def _for_site(text: str) -> str:
    """Text with its links changed from the root to docs/."""
    text = text.replace("](ARCHITECTURE.md", "](architecture.md")
    return re.sub(r"\]\(docs/", "](", text).replace("[docs/", "[")
