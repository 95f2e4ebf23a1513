"""Phrases that CONTRIBUTING.md rejects are not used."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TEXTS = ("*.py", "*.md", "*.j2", "*.ipynb", "*.yaml", "*.toml")
EXEMPT = {"CONTRIBUTING.md", "tests/test_language.py"}


def rejected() -> list[tuple[str, str]]:
    """Each phrase with its replacement, from the table in CONTRIBUTING.md."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    table = text.partition("| do not write | write |")[2].partition("\n\n")[0]
    rows = [line.strip("| ").split(" | ") for line in table.splitlines()[2:]]
    return [(phrase, write) for phrases, write in rows for phrase in phrases.split(", ")]


def words(path: Path) -> str:
    """The text of a file in small letters on one line, without comment signs where lines begin."""
    text = path.read_text(encoding="utf-8").lower()
    return re.sub(r"\s+(?:#\s+|\"\s*f?\"\s*)?", " ", text)


@pytest.fixture(scope="module")
def texts() -> dict[str, str]:
    command = ["git", "ls-files", *TEXTS]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return {name: words(ROOT / name) for name in listed.stdout.splitlines() if name not in EXEMPT}


def test_the_table_is_read() -> None:
    assert ("goes on", "continues") in rejected()
    assert len(rejected()) > 20


@pytest.mark.parametrize(("phrase", "write"), rejected())
def test_rejected_phrases_are_not_used(phrase: str, write: str, texts: dict[str, str]) -> None:
    pattern = re.compile(rf"\b{re.escape(phrase)}\b")
    found = [name for name, text in texts.items() if phrase in text and pattern.search(text)]
    assert found == [], f"{phrase!r}: write {write}"
