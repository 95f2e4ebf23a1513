"""The notebooks in examples/ run from the first cell to the last, and their outputs are current."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from website.notebooks import (
    DIGEST,
    EXAMPLES,
    PROCESSOR,
    digest_of,
    notebooks,
    printed,
    processor,
    run,
)

NOTEBOOKS = sorted(EXAMPLES.glob("*.ipynb"))
WITH_SWEEPS = {"on_a_cluster", "own_data", "quickstart", "reading_the_evidence"}
NUMBER = re.compile(r"\d+\.\d+(?:e-?\d+)?")


def test_notebooks_exist() -> None:
    assert {path.stem for path in NOTEBOOKS} == WITH_SWEEPS | {"comparing_losses"}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_stored_outputs_are_of_the_present_code(path: Path) -> None:
    notebook = json.loads(path.read_text(encoding="utf-8"))
    again = "python -m website.notebooks"
    assert notebook["metadata"].get(DIGEST) == digest_of(notebook), again
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1)), again
    outputs = [output for cell in cells for output in cell["outputs"]]
    assert not [output for output in outputs if output["output_type"] == "error"], again
    assert any("text/html" in output.get("data", {}) for output in outputs)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::RuntimeWarning:zmq")
def test_notebooks_run(tmp_path: Path) -> None:
    stored, books = notebooks(), notebooks()
    run(books, tmp_path)
    for name, book in books.items():
        check([output for cell in book.cells for output in cell.get("outputs", ())], name)
        if stored[name].metadata[PROCESSOR] == processor():
            for cell, before in zip(book.cells, stored[name].cells, strict=True):
                check_alike(printed(cell), printed(before))


def check_alike(text: str, stored: str) -> None:
    """Checks that words are the same, and numbers to the digits that are shown."""
    again = "python -m website.notebooks"
    assert NUMBER.sub("#", text).split() == NUMBER.sub("#", stored).split(), again
    numbers, before = (list(map(float, NUMBER.findall(each))) for each in (text, stored))
    assert numbers == pytest.approx(before, rel=1e-3, abs=1e-3), again


@pytest.mark.parametrize(
    ("text", "stored"), [("ECE 0.0281", "NLL 0.0281"), ("ECE 0.0281", "ECE 0.0381")]
)
def test_other_outputs_are_noticed(text: str, stored: str) -> None:
    check_alike(text, text)
    with pytest.raises(AssertionError):
        check_alike(text, stored)


def check(outputs: list[Any], name: str) -> None:
    """Checks the outputs of a notebook."""
    html = "\n".join(_text(each, "text/html") for each in outputs)
    assert html
    if name in WITH_SWEEPS:
        assert re.search(r"\d+/\d+ trials", html)  # the last state of the progress table
        assert "best so far" in html
        assert not any("best so far" in each.get("text", "") for each in outputs)  # and no lines
    if name == "quickstart":
        assert (
            html.count("Selected: inverse") + html.count("Selected: cross") == 1
        )  # the result appears once
    if name in ("quickstart", "reading_the_evidence"):
        assert any(_text(each, "image/png") for each in outputs)


def _text(output: Any, kind: str) -> str:
    found: str = output.get("data", {}).get(kind, "")
    return found
