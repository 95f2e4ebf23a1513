"""Phrases that a native engineer of the field would not write are not used."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TEXTS = ("*.py", "*.md", "*.j2", "*.ipynb", "*.yaml", "*.toml")
EXEMPT = {"tests/test_language.py"}
REJECTED = {
    "is told, are told": "is reported",
    "what there is": "the available losses, the available datasets",
    "on so many samples": "with this many samples",
    "honest up to": "calibrated bound",
    "side by side": "concurrent; next to each other",
    "goes on": "continues",
    "comes again": "is retried",
    "has come to": "has reached",
    "given back": "released",
    "whatever one does": "unavoidably",
    "to be had": "available",
    "is wanted": "is expected",
    "want of memory": "lack of memory",
    "costs it dear": "is expensive",
    "of which less is better": "where lower is better",
    "too sure": "overconfident",
    "not sure enough": "underconfident",
    "seeds of training": "training seeds",
    "new seeds": "fresh seeds",
    "nobody": "no process, no user",
    "whoever": "the process that, the user who",
    "let start": "no longer preempted",
    "the driver's book": "trial queue",
    "another law": "another data distribution",
    "mind that": "note that, or a heading “Caveats”",
    "the choice": "the selected setting",
    "chooses nothing, choose nothing": "is never used for selection",
    "chose no setting": "selected no setting",
    "surest of, surer": "most confident, more certain",
    "it must be given": "is missing",
    "how it goes": "progress, output",
    "aims at": "objective",
    "says how sure": "confidence",
    "best of the rest": "best other setting",
    "somebody else's": "another user's, of a dependency",
    "parted by": "separated by",
    "stands for": "represents, is short for",
}
"""What not to write, alternatives separated by commas, and what to write instead."""


def words(path: Path) -> str:
    """The text of a file in small letters on one line, without comment signs where lines begin."""
    text = path.read_text(encoding="utf-8").lower()
    return re.sub(r"\s+(?:#\s+|\"\s*f?\"\s*)?", " ", text)


@pytest.fixture(scope="module")
def texts() -> dict[str, str]:
    command = ["git", "ls-files", *TEXTS]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return {name: words(ROOT / name) for name in listed.stdout.splitlines() if name not in EXEMPT}


@pytest.mark.parametrize(
    ("phrase", "write"),
    [(each, write) for phrases, write in REJECTED.items() for each in phrases.split(", ")],
)
def test_rejected_phrases_are_not_used(phrase: str, write: str, texts: dict[str, str]) -> None:
    pattern = re.compile(rf"\b{re.escape(phrase)}\b")
    found = [name for name, text in texts.items() if phrase in text and pattern.search(text)]
    assert found == [], f"{phrase!r}: write {write}"
