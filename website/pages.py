"""The pages of the site: those in docs/, with parts and pages that are generated from the code.

A line ``<!-- losses -->`` in a page is replaced by that part.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

from website import losses, metrics, readme, sweep_file

PARTS: Final[dict[str, Callable[[], str]]] = {
    "answer": readme.answer,
    "losses": losses.sections,
    "metrics": metrics.table,
    "metric-classes": metrics.classes,
    "sweep-file": sweep_file.sections,
}
_MARKER: Final = re.compile(r"^<!-- ([a-z-]+) -->$", re.MULTILINE)
_OUTSIDE: Final = re.compile(r"\[([^\]\n]+)\]\(\.\./[^)\n]*\)")
_TABLES: Final = "](../benchmarks/results/"
ROOT: Final = Path(__file__).parents[1]


def write_pages(folder: Path) -> None:
    """Write all pages and pictures into an empty folder."""
    shutil.copytree(ROOT / "docs", folder, ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    generated = {
        "architecture.md": (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8"),
        "contributing.md": readme.contributing(),
        "changelog.md": (ROOT / "CHANGELOG.md")
        .read_text(encoding="utf-8")
        .replace("](docs/", "]("),
        **losses.pictures(),
        **_tables(),
    }
    for name, content in generated.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
    for path in folder.glob("*.md"):
        path.write_text(_whole(path.name, path.read_text(encoding="utf-8")), encoding="utf-8")


def _whole(name: str, page: str) -> str:
    """A page with its generated parts; links to files outside docs/ become text."""

    def part(found: re.Match[str]) -> str:
        if found[1] not in PARTS:
            raise ValueError(f"docs/{name}: no part {found[1]!r}; available: {[*PARTS]}")
        return PARTS[found[1]]()

    if name == "losses.md":
        page = losses.overview(page)
    return _OUTSIDE.sub(r"\1", _MARKER.sub(part, page).replace(_TABLES, "](tables/"))


def _tables() -> dict[str, str]:
    """The long tables that pages link to; those that a benchmark printed get a heading."""
    pages = {}
    for path in sorted((ROOT / "benchmarks/results").glob("*.md")):
        text = path.read_text(encoding="utf-8").replace("](../../docs/", "](../")
        heading = (
            "" if text.startswith("# ") else f"# {path.stem.replace('_', ' ').capitalize()}\n\n"
        )
        pages[f"tables/{path.name}"] = heading + text
    return pages
