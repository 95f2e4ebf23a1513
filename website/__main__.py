"""Builds the documentation into site/, warnings as errors: python -m website [serve]."""

import shutil
import sys
from typing import Final

from zensical.main import cli

from website.pages import ROOT, write_pages

# The theme shows the navigation from 1,220 px; ours from 1,152 px, for windows of 1,200 px.
_BREAKPOINTS: Final = {"76.25em": "72em", "76.234375em": "71.984375em"}


def main() -> None:
    """Write the pages, and build or serve them."""
    pages = ROOT / "site-pages"  # docs_dir in mkdocs.yml
    shutil.rmtree(pages, ignore_errors=True)
    write_pages(pages)
    arguments = sys.argv[1:] or ["build", "--strict", "--clean"]
    cli([*arguments, "--config-file", str(ROOT / "mkdocs.yml")], standalone_mode=False)
    for path in (ROOT / "site/assets").rglob("*.[cj]s*"):
        text = whole = path.read_text(encoding="utf-8")
        for theirs, ours in _BREAKPOINTS.items():
            text = text.replace(theirs, ours)
        if text != whole:
            path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
