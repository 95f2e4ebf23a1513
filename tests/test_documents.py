"""What the documents say is what the code does."""

from pathlib import Path

from sweeps.terminal.catalogue import losses_markdown

ROOT = Path(__file__).parents[1]


def test_the_readmes_table_of_losses_is_the_commands() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    section = readme.partition("\n## Losses\n")[2].partition("\n## ")[0]
    table = [line for line in section.splitlines() if line.startswith("|")]
    assert table == losses_markdown().splitlines()
