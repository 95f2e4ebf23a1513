"""The files of a folder or a pattern."""

from pathlib import Path

import pytest

from trainables.data.readers.files import find_files


@pytest.mark.parametrize("place", ["", "/*.csv", "/*/*.csv"])
def test_hidden_files_are_skipped(tmp_path: Path, place: str) -> None:
    below = "" if place == "/*.csv" else "deeper/"
    for name in (f"{below}a.csv", f"{below}._a.csv", ".ipynb_checkpoints/a.csv", ".b.csv"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("x,y\n")
    _, found = find_files("train", f"{tmp_path}{place}", [".csv"])
    assert found == (f"{tmp_path}/{below}a.csv",)
