"""Hooks for mkdocs: generated pages, and generated parts of pages.

A line ``<!-- losses -->`` in a page is replaced by that part.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from website import losses, metrics, readme, sweep_file

PARTS: Final[dict[str, Callable[[], str]]] = {
    "answer": readme.answer,
    "losses": losses.sections,
    "metrics": metrics.table,
    "metric-classes": metrics.classes,
    "sweep-file": sweep_file.sections,
}
_MARKER: Final = re.compile(r"^<!-- ([a-z-]+) -->$", re.MULTILINE)
_ROLE: Final = re.compile(r":(?:func|class|meth|mod|attr|data):(?=<code>)")
_TILDE: Final = re.compile(r"(<code>)~(?:\w+\.)*(\w+)(</code>)")
_OUTSIDE: Final = re.compile(r"\[([^\]\n]+)\]\(\.\./[^)\n]*\)")
_TABLES: Final = "](../benchmarks/results/"
ROOT: Final = Path(__file__).parents[1]


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put pages that the navigation does not name under More."""
    named = set(_pages(config.nav))
    generated = {"contributing.md", "changelog.md"}
    found = {path.relative_to(config.docs_dir).as_posix() for path in _markdown(config.docs_dir)}
    if missing := sorted(named - found - generated):
        raise PluginError(f"mkdocs.yml names pages that do not exist: {', '.join(missing)}")
    if more := sorted(found - named):
        assert config.nav is not None
        config.nav.append({"More": more})
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages and pictures that are generated from the code."""
    pages = {
        "contributing.md": readme.contributing(),
        "changelog.md": (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"),
        **losses.pictures(),
        **_tables(),
    }
    for path, content in pages.items():
        files.append(File.generated(config, path, content=content))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Insert the generated parts; turn links to files outside docs/ into text."""

    def part(found: re.Match[str]) -> str:
        if found[1] not in PARTS:
            raise PluginError(f"{page.file.src_uri}: no part {found[1]!r}; available: {[*PARTS]}")
        return PARTS[found[1]]()

    if page.file.src_uri == "losses.md":
        markdown = losses.overview(markdown)
    return _OUTSIDE.sub(r"\1", _MARKER.sub(part, markdown).replace(_TABLES, "](tables/"))


def on_page_content(html: str, **_: Any) -> str:
    """Turn Sphinx roles in docstrings into plain code."""
    return _TILDE.sub(r"\1\2\3", _ROLE.sub("", html))


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


def _pages(nav: Any) -> list[str]:
    if isinstance(nav, str):
        return [nav]
    parts = nav.values() if isinstance(nav, dict) else nav
    return [page for part in parts for page in _pages(part)]


def _markdown(folder: str) -> list[Path]:
    return list(Path(folder).rglob("*.md"))
